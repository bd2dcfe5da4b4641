"""The commands of a tutorial, typed one after the other: with small networks, and few trials."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import onnx
import pytest

from docs.walk import Said, Walk, commands, look_at, needs_model
from tests.building.network import network, written
from tests.cli.running import Ran, Toolchain
from tests.e2e.vta_tutorial import check_what_was_said, small_network
from toolchain.rpc import lab
from toolchain.tuning.judging import judge, network_bench

ROOT = Path(__file__).parent.parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
NETWORKS = ("squeezenet_v1.1", "mobilenet", "resnet-18")  # bundles are named after their files
BUDGET = {"--trials": "2", "--time": "120", "--early-stopping": "2"}

pytestmark = pytest.mark.slow


def walk(invoke: Toolchain) -> Walk:
    """Return a walk with a small network for each of the zoo, and small budgets."""

    def run(arguments: list[str]) -> Said:
        # The last one of an option counts.
        done = invoke(*arguments, *(["--time", "1"] if arguments[0] == "bench" else []))
        return Said(done.code, done.out + done.err)

    return Walk(run, {f"zoo:{name}": f"{name}.onnx" for name in NETWORKS}, BUDGET)


def walked(invoke: Toolchain, page: str) -> dict[str, list[str]]:
    """Type the commands of a page; return what each said, by verb."""
    way, said = walk(invoke), defaultdict(list)
    for arguments in commands(TUTORIALS / page):
        if needs_model(arguments):  # tests/cli/tuning and tests/mali have theirs
            continue
        typed, done = way.type(arguments)
        assert done.code == 0, (typed, done.text)
        said[typed[0]].append(done.text)
    return said


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the small networks where commands are typed, and no lab afterwards."""
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
    monkeypatch.setenv(
        "TOOLCHAIN_JOBS", "1"
    )  # each process imports TVM, which costs more than what it compiles
    monkeypatch.setattr(judge, "_ROUNDS", 2)
    monkeypatch.setattr(judge, "_LAST_ROUNDS", 2)
    monkeypatch.setattr(network_bench, "_SAMPLE_S", 0.02)
    (folder / "toolchain.toml").touch()
    file = written(folder)
    for name in NETWORKS:
        shutil.copy(file, folder / f"{name}.onnx")
    try:
        yield
    finally:
        lab.stop()


@pytest.mark.usefixtures("state", "here")
def test_first_day(invoke: Toolchain, folder: Path) -> None:
    shutil.copytree(ROOT / "docs" / "examples" / "first-day", folder, dirs_exist_ok=True)
    with ExitStack() as stays:

        def look_or_type(*arguments: str) -> Ran:
            if arguments[0] != "ui":
                return invoke(*arguments)
            said = look_at(stays, list(arguments))
            return Ran(said.code, said.text, "")

        for name in ("desk", "rk3399-emulated"):  # if the page did not come to that
            stays.callback(invoke, "board", "emulate", "stop", name)
        said = walked(look_or_type, "first-day.md")
    assert "docker" in said["doctor"][0] and "report: " in said["demo"][0]
    assert "desk is ready (container)" in said["board"][0] and "aarch64" in said["board"][1]
    assert "2 trials" in said["tune"][0] and (folder / "tuned.html").exists()
    assert "passed: true" in said["verify"][0] and "wrote out.npz" in said["run"][0]
    assert "is stopped" in said["board"][-1] and "is stopped" in said["board"][-2], "it stops what it starts"


@pytest.mark.usefixtures("state", "here")
def test_cpu(invoke: Toolchain) -> None:
    said = walked(invoke, "cpu.md")
    assert {"tasks", "lab", "tune", "records", "build", "verify", "bench"} <= said.keys()
    assert "passed: true" in said["verify"][-1] and "OPERATOR" in said["bench"][-1]
    assert "0 tasks without one" in said["build"][-1], "every task was tuned"
    assert lab.status() is None, "the tutorial stops what it starts"


@pytest.mark.usefixtures("state", "here")
def test_mali(invoke: Toolchain, folder: Path) -> None:
    said = walked(invoke, "mali.md")
    assert "max_work_group=" in said["board"][0], "the hardware's parameters"
    packed, nhwc = said["tasks"]
    assert "WEIGHT" in packed and packed != nhwc, "layouts have tasks of their own"
    named = re.search(r"--device '?(opencl:[^'\s]+)", said["tune"][1])
    assert named and named[1] in said["records"][0]
    tuned, objects, android = said["build"]
    assert re.search(r"records: [1-9]\d* exact", tuned) and named[1] in tuned, "what was measured is taken"
    with tarfile.open(next((folder / "objects").glob("*.tar"))) as archive:
        assert any(name.endswith(".o") for name in archive.getnames()), objects
    assert "android" in android and list((folder / "android").glob("*.so"))
    assert "passed: true" in said["verify"][0]
    assert "OPERATOR" in said["bench"][0] and "time on opencl" in said["bench"][0]
    assert lab.status() is None, "the tutorial stops what it starts"


@pytest.mark.usefixtures("state", "here")
def test_cuda(invoke: Toolchain, folder: Path) -> None:
    """On the emulated board that the page starts: what needs a GPU is told, not typed."""
    said = walked(invoke, "cuda.md")
    assert "cuda-emulated is ready (process)" in said["board"][0] and "arch=emulated" in said["board"][1]
    packed, nhwc, explained = said["tasks"]
    assert "WEIGHT" in packed and packed != nhwc, "layouts have tasks of their own"
    assert "REGISTERS" in explained and "SPILLED B" in explained
    dry, packed, nhwc, again, exported = said["tune"]
    assert "nothing was measured" in dry
    for tuned in (packed, again):
        assert re.search(r"(?m)^[1-9]\d* trials?, 0 failed, in ", tuned), "candidates were measured"
    assert "default" in nhwc, "MetaSchedule finds no other schedule of so small a layer; see test_cuda.py"
    assert re.search(r"(?m)^ +1/\d+  .* best ", packed), "the table of the search"
    assert "candidates of" in exported and (folder / "away" / "candidates.json").exists()
    best, _export, distilled = said["records"]
    assert best.count("cuda:emulated") >= 2 and "cuda+emulated" in best
    assert re.search(r"records and \d+ failures were removed; [1-9]\d* kept", distilled)
    tuned, by_tvm, fat = said["build"]
    for each in (tuned, by_tvm):
        assert re.search(r"records: [1-9]\d* ", each) and "cuda:emulated" in each, (
            "what was measured is taken"
        )
    assert "3 compiled" not in fat and list((folder / "fat").glob("*.so"))
    assert "passed: true" in said["verify"][0]
    assert "as one graph" in said["bench"][0] and "OPERATOR" in said["bench"][1]
    assert "cuda-emulated" in said["lab"][1] and lab.status() is None
    assert "cuda-emulated is stopped" in said["board"][-1], "the tutorial stops what it starts"


@pytest.mark.usefixtures("state", "here")
def test_vta(invoke: Toolchain, folder: Path) -> None:
    small_network(folder)
    said = walked(invoke, "vta.md")
    check_what_was_said(said)
    with tarfile.open(next((folder / "graphlib").glob("*.tar"))) as archive:
        assert any(name.endswith(".o") for name in archive.getnames()), said["build"][2]
    assert lab.status() is None, "the tutorial stops what it starts"


@pytest.mark.usefixtures("state", "here")
def test_field(invoke: Toolchain, folder: Path) -> None:
    def train_anew(*arguments: str) -> Ran:
        if "--weights-seed" in arguments:  # which a file does not heed
            onnx.save(network(seed=2), folder / "squeezenet_v1.1.onnx")
        return invoke(*arguments)

    try:
        said = walked(train_anew, "field.md")
    except BaseException:  # else the page stops its boards
        for name in ("field-1", "field-2"):
            invoke("board", "emulate", "stop", name)
        raise
    plan, first, second = said["deploy"]
    assert plan.count("it has none") == 2, "a dry run installs nothing"
    assert first.count("installed 1.0.0") == 2 and second.count("installed 1.1.0") == 2
    assert "gate after phase 1" in second
    installed, back = said["fleet"]
    for version, status in (("1.0.0", installed), ("1.0.0", back)):
        lines = re.findall(rf"field-\d +active +classifier +{version} .*", status)
        assert len(lines) == 2, status
    assert said["rollback"][0].count("rolled-back") >= 2
    assert "field-2 is stopped" in said["board"][-1], "the tutorial stops what it starts"


def test_commands_stand_for_what_is_here() -> None:
    typed: list[list[str]] = []

    def run(arguments: list[str]) -> Said:
        typed.append(arguments)
        return Said(
            0, "ID  WEIGHT\n11111111  2\n22222222  1\nbuilds use them with --device 'opencl:this-one'\n"
        )

    way = Walk(run, {"zoo:a": "a.onnx"}, {"--time": "9", "--trials": "2"})
    way.type(["tasks", "zoo:a"])
    way.type(["tune", "zoo:a", "--tasks", "33333333", "--time", "60"])
    way.type(["tune", "zoo:a", "--tasks", "22222222", "--layout", "NHWC"])
    way.type(["build", "zoo:a", "--device", "opencl:that-one", "--time", "60"])
    assert typed[1:] == [
        ["tune", "a.onnx", "--tasks", "11111111", "--time", "9"],
        ["tune", "a.onnx", "--tasks", "22222222", "--layout", "NHWC"],
        ["build", "a.onnx", "--device", "opencl:this-one", "--time", "60"],
    ]


def test_one_command_walks_through_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "\n".join(f"    $ toolchain {each}" for each in ("--version", "lab status", "nothing", "doctor"))
    )
    command = [sys.executable, str(ROOT / "docs" / "walk.py"), str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "$ toolchain --version\ntoolchain" in done.stdout and "$ toolchain lab status" in done.stdout
    assert "stopped: `toolchain nothing` exited with 2" in done.stdout and "doctor" not in done.stdout
