"""`edge-rt measure`: candidates cost themselves alone, and what was measured stays."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.conftest import Edge
from tests.runtime.offline_folder import DOUBLED, Act, case_of, copied, libraries, resealed, write_folder
from tests.runtime.test_opencl import PROGRAMS, Device, device_for
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]

FAILED, USAGE, REQUIRES, BUSY = 1, 2, 5, 75
DEADLY = {
    "hang()": {"timeout"},
    "crash()": {"runtime"},
    "spoil_heap()": {"runtime", None},  # a sanitizer has its heap elsewhere
    "smash_stack()": {"runtime"},
    "send_nonsense()": {"runtime"},
}
Measure = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    acts = (DOUBLED, *DEADLY)
    return dict(zip(acts, libraries(acts, tmp_path_factory.mktemp("libraries")), strict=True))


@pytest.fixture(scope="module", params=PROGRAMS)
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Device:
    return device_for(request, tmp_path_factory.mktemp("measure"))


@pytest.fixture
def measure(device: Device, tmp_path: Path) -> Measure:
    return lambda folder, *options: device("measure", folder, "--state", tmp_path / "rt", *options)


@pytest.fixture
def plain(made: dict[str, Path], tmp_path: Path) -> Path:
    """Return a folder of three candidates that are right, behind a probe."""
    acts = [Act("probe", probe=True), *(Act(f"c0ffee:{number}") for number in range(3))]
    write_folder(tmp_path / "plain", acts, [made[DOUBLED]] * 4, case_of(tmp_path))
    return tmp_path / "plain"


def lines(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "results").read_text().splitlines()]


def test_crashes_and_hangs_cost_one_candidate_each(
    made: dict[str, Path], measure: Measure, tmp_path: Path
) -> None:
    acts = [Act("first")]
    for place, act in enumerate(DEADLY):
        limit_s = 1.0 if act == "hang()" else 20.0
        acts += [Act(f"deadly:{place}", act, limit_s), Act(f"sound:{place}")]
    digests = write_folder(tmp_path / "f", acts, [made[act.body] for act in acts], case_of(tmp_path))
    code, answer = measure(tmp_path / "f")
    assert (code, answer["measured"], answer["left"]) == (0, len(acts), 0)
    assert answer["caches_flushed"] is False
    head, *results = lines(tmp_path / "f")
    assert head["results"] == 1 and [result["candidate"] for result in results] == digests
    came = {act: result["failure"] for act, result in zip(DEADLY, results[1::2], strict=True)}
    assert not {act: failure for act, failure in came.items() if failure not in DEADLY[act]}
    assert all(result["failure"] is None and len(result["ms"]) == 2 for result in results[::2])
    assert all(ms > 0 for result in results[::2] for ms in result["ms"])


def test_measuring_resumes_after_an_interruption(plain: Path, measure: Measure) -> None:
    assert measure(plain, "--time", "0")[1] == {
        "candidates": 3,
        "measured": 0,
        "failed": 0,
        "before": 0,
        "left": 3,
        "results": str(plain / "results"),
        "caches_flushed": False,
    }
    assert measure(plain)[1]["measured"] == 3
    complete = (plain / "results").read_bytes()
    *first, last = complete.splitlines(keepends=True)
    for cut in (b"", last[:30], last[:-1]):
        (plain / "results").write_bytes(b"".join(first) + cut)
        answer = measure(plain)[1]
        assert (answer["before"], answer["measured"]) == (2, 1), cut
        assert (plain / "results").read_bytes().splitlines(keepends=True)[:-1] == first
    (plain / "results").write_bytes(first[0][:20])
    assert measure(plain)[1]["measured"] == 3
    assert measure(plain)[1]["before"] == 3


def test_wrong_outputs_are_reported(made: dict[str, Path], measure: Measure, tmp_path: Path) -> None:
    case = case_of(tmp_path, np.array([0, 2, 4, 7], np.float32))
    write_folder(tmp_path / "f", [Act("off")], [made[DOUBLED]], case)
    assert measure(tmp_path / "f")[1]["failed"] == 1
    (result,) = lines(tmp_path / "f")[1:]
    assert result["failure"] == "wrong result"
    assert result["message"] == "differs from the definition by 1 where values reach 7"


def test_broken_station_measures_nothing(made: dict[str, Path], measure: Measure, tmp_path: Path) -> None:
    acts = [Act("probe", "crash()", probe=True), Act("sound")]
    write_folder(tmp_path / "f", acts, [made["crash()"], made[DOUBLED]], case_of(tmp_path))
    code, answer = measure(tmp_path / "f")
    assert (code, answer["error"]["kind"]) == (FAILED, "probe")
    assert (
        "a known-good kernel fails here, before anything is measured: runtime" in answer["error"]["message"]
    )
    assert len(lines(tmp_path / "f")) == 1


def test_folder_in_use_is_refused(plain: Path, measure: Measure) -> None:
    with (plain / "results").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        code, answer = measure(plain)
    assert (code, answer["error"]["kind"]) == (BUSY, "busy")


@dataclass(frozen=True)
class Bystander:
    """A second person at the board of the test."""

    device: Device
    state: Path

    def begun(self, folder: Path, *options: str) -> subprocess.Popen[bytes]:
        """Begin to measure a folder's candidates."""
        command = [self.device.program, "measure", folder, "--state", self.state, *options]
        settings = {**os.environ, **self.device.settings}
        return subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def wait_behind(self, first: subprocess.Popen[bytes], folder: Path) -> subprocess.Popen[bytes]:
        """Measure a folder after that process, which is under way; return when it waits."""
        until(lambda: self._seen()[0] == [first.pid])
        first.send_signal(signal.SIGSTOP)  # it keeps the lock
        second = self.begun(folder, "--wait", f"{PATIENCE_S}")
        until(lambda: self._seen() == ([first.pid], [second.pid]))
        first.send_signal(signal.SIGCONT)
        return second

    def _seen(self) -> tuple[list[int], list[int]]:
        answer = self.device("info", "--state", self.state)[1]
        return [ticket["pid"] for ticket in (answer["holder"],) if ticket], [
            ticket["pid"] for ticket in answer["waiting"]
        ]


@pytest.fixture
def bystander(device: Device, tmp_path: Path) -> Bystander:
    return Bystander(device, tmp_path / "rt")


@pytest.fixture
def long(made: dict[str, Path], tmp_path: Path) -> Path:
    """Return a folder of three candidates, the first of which hangs for eight seconds."""
    acts = [Act("slow", "hang()", 8.0), Act("c0ffee:0"), Act("c0ffee:1")]
    write_folder(tmp_path / "long", acts, [made[act.body] for act in acts], case_of(tmp_path))
    return tmp_path / "long"


def test_concurrent_folders_take_turns(bystander: Bystander, plain: Path, long: Path) -> None:
    with bystander.begun(long) as first, bystander.wait_behind(first, plain) as second:
        messages = [process.communicate(timeout=PATIENCE_S)[1] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    assert all(b"others wait for this board (1): it is their turn" in words for words in messages)
    assert len(lines(plain)) == len(lines(long)) == 1 + 3


def test_lost_turn_leaves_the_rest_unmeasured(
    bystander: Bystander, made: dict[str, Path], long: Path, tmp_path: Path
) -> None:
    act = Act("endless", "hang()", 300.0)
    write_folder(tmp_path / "endless", [act], [made[act.body]], case_of(tmp_path))
    with (
        bystander.begun(long, "--time", "20") as first,
        bystander.wait_behind(first, tmp_path / "endless") as second,
    ):
        out, messages = first.communicate(timeout=PATIENCE_S)
        second.kill()
    assert first.returncode == 0 and b"another measurement is running" in messages
    answer = json.loads(out)
    assert (answer["measured"], answer["left"]) == (1, 2)


def test_refuses_invalid_folders(plain: Path, measure: Measure, tmp_path: Path) -> None:
    text = (plain / "plan").read_text()
    member = next((plain / "members").iterdir())

    def refused(name: str, change: Callable[[Path], object]) -> str:
        folder = copied(plain, tmp_path / name)
        change(folder)
        code, answer = measure(folder)
        assert code == USAGE, (name, answer)
        return str(answer["error"]["message"])

    def sealed(old: str, new: str) -> Callable[[Path], None]:
        assert old in text
        return lambda folder: resealed(folder, text.replace(old, new, 1))

    assert "holds no plan" in refused("empty", lambda f: (f / "plan").write_text(""))
    assert "cannot be read" in refused("none", lambda f: (f / "plan").unlink())
    version = refused("version", lambda f: (f / "plan").write_text(text.replace("plan 3", "plan 2", 1)))
    assert 'has version "2", this edge-rt reads version 3' in version
    assert "was changed" in refused(
        "changed", lambda f: (f / "plan").write_text(text.replace(" 2 1\n", " 9 1\n", 1))
    )
    assert "is cut" in refused("cut", lambda f: (f / "plan").write_text(text[:-200]))
    assert "take the edge-rt of the version" in refused("runtime", sealed("runtime ", "runtime 0"))
    missing = refused("gone", lambda f: (f / "members" / member.name).unlink())
    assert member.name in missing and "cannot be read" in missing
    changed = refused(
        "member", lambda f: (f / "members" / member.name).write_bytes(b"\0" * member.stat().st_size)
    )
    assert "was changed or cut: it has another digest" in changed
    longer = refused(
        "longer", lambda f: (f / "members" / member.name).write_bytes(member.read_bytes() + b"0")
    )
    assert "has more than" in longer
    large = refused("large", lambda f: (f / "plan").open("r+b").truncate(17 << 20))
    assert "has more than 16777216 bytes" in large
    for number, (old, new) in enumerate(
        [
            ("end 4", "end 5"),
            ("output float32 4", "output float32 x4"),
            ("output float32 4", "output  float32 4"),
            ("samples 1 2 1", "samples 1 0 1"),
            ("samples 1 2 1", "samples 1 2"),
            ("\ncase\n", "\n"),
            ("main_0 cpu", "main_0"),
            (" 20.000 ", " nan "),
            (" 20.000 ", " 1e9 "),
            (f"member {member.name}", f"member ../{member.name[3:]}"),
            ("candidate ", "candidate 0"),
        ]
    ):
        assert "the plan's line " in refused(f"odd{number}", sealed(old, new)), new


def test_refuses_foreign_results(plain: Path, measure: Measure) -> None:
    measure(plain)
    good = (plain / "results").read_text()
    other = good.replace('"plan": "', '"plan": "0', 1)
    for text in (
        other,
        good + good.splitlines()[-1].replace('"candidate": "', '"candidate": "0') + "\n",
        good + "x\n",
    ):
        (plain / "results").write_text(text)
        code, answer = measure(plain)
        assert code == USAGE and "results" in answer["error"]["message"]
        assert (plain / "results").read_text() == text


def test_refuses_candidates_of_another_device(plain: Path, measure: Measure) -> None:
    code, answer = measure(plain, "--device", "opencl")
    assert (code, answer["error"]["message"]) == (USAGE, "--device opencl: the candidates are for cpu")
    resealed(plain, (plain / "plan").read_text().replace("compute cpu", "compute cuda", 1))
    code, answer = measure(plain)
    assert code == FAILED and "there is no device cuda here" in answer["error"]["message"]


def test_progress_on_standard_error(native: Edge, plain: Path, tmp_path: Path) -> None:
    command = [*native.command, "measure", str(plain), "--state", str(tmp_path / "rt")]
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    messages = done.stderr.decode().splitlines()
    assert [line.partition(": ")[0] for line in messages] == [f"{n}/3 c0ffee:{n - 1}" for n in (1, 2, 3)]
    assert all(line.endswith(" ms") for line in messages)
