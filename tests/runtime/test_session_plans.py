"""A session that is sent a plan measures its candidates, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from tvm import rpc

from benchmarks.tuners.c_function import CFunction
from tests.runtime import networks
from tests.runtime.conftest import Edge
from tests.runtime.offline_folder import DOUBLED, NUMBERS, Act, case_of, libraries, resealed, write_folder
from tests.runtime.sessions import HOST, request
from tests.runtime.test_measure import DEADLY
from tests.waiting import PATIENCE_S, until
from toolchain.profiles import load_profile
from toolchain.runtime import expected_fingerprint
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tuning.builders.builder import LibraryBuilder
from toolchain.tuning.builders.choice import HostCompilers
from toolchain.tuning.plans.answers import CandidateLine

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]

# As TVMFFIAny of tvm/ffi/c_api.h: 16 bytes, where pointers have 4, too.
DOUBLES = """typedef struct { int type, padding; union { void **tensor; long long value; }; } Argument;
static float *data(Argument *arguments, int which) { return *arguments[which].tensor; }"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    acts = (DOUBLED, *DEADLY)
    return dict(zip(acts, libraries(acts, tmp_path_factory.mktemp("libraries")), strict=True))


def sent(session: rpc.RPCSession, folder: Path) -> str:
    """Send the files of a folder to a session; return its plan."""
    for member in (folder / "members").iterdir():
        session.upload(str(member), member.name)
    return (folder / "plan").read_text()


def lines(said: str) -> list[CandidateLine]:
    return [CandidateLine.model_validate_json(line) for line in said.splitlines()]


def test_a_crash_a_hang_and_spoilt_memory_cost_one_candidate_each(
    native: Edge, state: Path, tracker: int, made: dict[str, Path], tmp_path: Path
) -> None:
    acts = [Act("first")]
    for place, act in enumerate(DEADLY):
        acts += [Act(f"deadly:{place}", act, 1.0 if act == "hang()" else 20.0), Act(f"sound:{place}")]
    digests = write_folder(tmp_path / "f", acts, [made[act.body] for act in acts], case_of(tmp_path))
    with native.serving(state, tracker):
        session = request(tracker)
        found = lines(session.get_function("edge.measure")(sent(session, tmp_path / "f")))
        assert session.get_function("edge.fingerprint")() == expected_fingerprint(), "the session goes on"
    assert [each.candidate for each in found] == digests
    came = {act: each.failure for act, each in zip(DEADLY, found[1::2], strict=True)}
    assert not {act: failure for act, failure in came.items() if failure not in DEADLY[act]}
    assert all(each.failure is None and len(each.ms) == 2 for each in found[::2])


def test_a_folder_and_a_session_are_told_the_same(
    native: Edge, state: Path, tracker: int, made: dict[str, Path], tmp_path: Path
) -> None:
    case = case_of(tmp_path, np.array([0, 2, 4, 7], np.float32))
    write_folder(tmp_path / "f", [Act("off")], [made[DOUBLED]], case)
    assert native("measure", tmp_path / "f", "--state", tmp_path / "rt")[0] == 0
    with native.serving(state, tracker):
        session = request(tracker)
        said = session.get_function("edge.measure")(sent(session, tmp_path / "f"))
    assert json.loads(said) == json.loads((tmp_path / "f" / "results").read_text().splitlines()[1])
    assert json.loads(said)["message"] == "differs from the definition by 1 where values reach 7"


def test_plans_that_are_refused_leave_the_session_as_it_is(
    native: Edge, state: Path, tracker: int, made: dict[str, Path], tmp_path: Path
) -> None:
    write_folder(tmp_path / "f", [Act("sound")], [made[DOUBLED]], case_of(tmp_path))
    with native.serving(state, tracker):
        session = request(tracker)
        measure = session.get_function("edge.measure")
        with pytest.raises(Exception, match="cannot be read"):
            measure((tmp_path / "f" / "plan").read_text())
        text = sent(session, tmp_path / "f")
        for changed, why in (
            ("", "holds no plan"),
            (text[:-30], "was changed"),
            (text.replace("main_0", "main_1"), "was changed"),
        ):
            with pytest.raises(Exception, match=why):
                measure(changed)
        resealed(tmp_path / "f", text.replace("compute cpu 1", "compute cuda 1"))
        (line,) = lines(measure((tmp_path / "f" / "plan").read_text()))
        assert line.failure == "upload" and "there is no device cuda here" in line.message
        (line,) = lines(measure(text))
        assert line.failure is None


LEAVES = """
import sys
from pathlib import Path
from tvm import rpc
session = rpc.connect_tracker({host!r}, int(sys.argv[1])).request("board", session_timeout=600)
folder = Path(sys.argv[2])
for member in (folder / "members").iterdir():
    session.upload(str(member), member.name)
session.get_function("edge.measure")((folder / "plan").read_text())
"""


def test_a_client_that_leaves_ends_its_candidate(
    native: Edge, state: Path, tracker: int, made: dict[str, Path], tmp_path: Path
) -> None:
    write_folder(tmp_path / "f", [Act("hangs", "hang()", 600)], [made["hang()"]], case_of(tmp_path))
    with native.serving(state, tracker) as server:
        command = [sys.executable, "-c", LEAVES.format(host=HOST), str(tracker), str(tmp_path / "f")]
        with subprocess.Popen(command) as client:
            until(lambda: len(psutil.Process(server.pid).children(recursive=True)) == 2)
            os.kill(client.pid, signal.SIGKILL)
        until(lambda: not psutil.Process(server.pid).children(recursive=True))
        assert request(tracker, PATIENCE_S).get_function("edge.fingerprint")() == expected_fingerprint()


def doubling(arch: str, folder: Path) -> Path:
    """Return a library that doubles four numbers, for an architecture."""
    profile = load_profile(networks.CLASSES[arch])
    target = f"{profile.architecture.zig_target}.2.27"
    body = "for (int i = 0; i < 4; i++) data(b, 1)[i] = 2 * data(b, 0)[i]; return 0;"
    code = CFunction(body, before=DOUBLES, target=target)
    compilers = HostCompilers(1)
    try:
        candidate = Candidate(Entry("c", "doubles", "0" * 64), code, (NUMBERS, NUMBERS), 1)
        (built,) = LibraryBuilder(compilers, profile, folder).build([candidate])
    finally:
        compilers.close()
    assert built.library is not None, built.message
    return built.library


def test_every_architecture_measures(edge: Edge, state: Path, tracker: int, tmp_path: Path) -> None:
    write_folder(tmp_path / "f", [Act("sound")], [doubling(edge.arch, tmp_path)], case_of(tmp_path))
    with edge.serving(state, tracker):
        session = request(tracker)
        (line,) = lines(session.get_function("edge.measure")(sent(session, tmp_path / "f")))
    assert (line.failure, line.message, len(line.ms)) == (None, "", 2)
