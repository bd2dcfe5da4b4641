"""The commands of a tutorial, typed one after the other: with small networks, and few trials."""

from __future__ import annotations

import re
import shlex
import shutil
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.building.network import written
from tests.cli.running import Ran, Toolchain
from toolchain.rpc import lab
from toolchain.tuning import judge, network_bench

ROOT = Path(__file__).parent.parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
NETWORKS = ("squeezenet_v1.1", "mobilenet", "resnet-18")  # bundles are named after their files
BUDGET = {"--trials": "2", "--time": "120", "--early-stopping": "2"}

pytestmark = pytest.mark.slow


def commands(page: str) -> list[list[str]]:
    """Return what a reader types, as arguments of `toolchain`; a line that ends in a backslash goes on."""
    text = page.replace("\\\n", " ")
    typed = re.findall(r"^    \$ (.*)$", text, re.MULTILINE)
    assert typed and all(line.startswith("toolchain ") for line in typed), typed
    return [shlex.split(line)[1:] for line in typed]


def small(arguments: list[str]) -> list[str]:
    """Return a command with a small network for that of the zoo, and the small budget."""
    made = [f"{each.removeprefix('zoo:')}.onnx" if each.startswith("zoo:") else each for each in arguments]
    for option, value in BUDGET.items():
        if option in made:
            made[made.index(option) + 1] = value
    return [*made, "--time", "1"] if made[0] == "bench" else made  # the last one of an option counts


def needs_mesa(arguments: list[str]) -> bool:
    """Return whether a command asks the model of a Mali, whose optional image takes minutes to make."""
    return "--model" in arguments or "mali-model" in arguments


def with_own_tasks(invoke: Toolchain, arguments: list[str]) -> list[str]:
    """Return a command with tasks of the small network for those of the network in the text."""
    made = list(arguments)
    for option in {"--tasks", "--explain"} & set(made):
        at = made.index(option) + 1
        asked = [made[1]]
        for kept in {"--board", "--device", "--layout"} & set(made):
            asked += [kept, made[made.index(kept) + 1]]
        listed = invoke("tasks", *asked, "--json")
        assert listed.code == 0, (asked, listed.err)
        made[at] = ",".join(each["id"] for each in listed.document[: made[at].count(",") + 1])
    return made


def with_own_device(arguments: list[str], name: str) -> list[str]:
    """Return a command with this host's driver's name for the device in the text."""
    return [name if each.startswith("opencl:") else each for each in arguments]


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the small networks where commands are typed, and no lab afterwards."""
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
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
def test_cpu(invoke: Toolchain) -> None:
    said: dict[str, Ran] = {}
    for arguments in commands((TUTORIALS / "cpu.md").read_text()):
        done = invoke(*small(arguments))
        assert done.code == 0, (arguments, done.err)
        said[arguments[0]] = done
    assert {"tasks", "lab", "tune", "records", "build", "verify", "bench"} <= said.keys()
    assert "passed: true" in said["verify"].out and "OPERATOR" in said["bench"].out
    assert "0 tasks without one" in said["build"].out, "every task was tuned"
    assert lab.status() is None, "the tutorial stops what it starts"


@pytest.mark.usefixtures("state", "here")
def test_mali(invoke: Toolchain, folder: Path) -> None:
    """Commands that ask the model of a Mali are left out: tests/cli/tuning and tests/mali have theirs."""
    said: dict[str, list[Ran]] = defaultdict(list)
    device = "named by no command yet"
    for typed in commands((TUTORIALS / "mali.md").read_text()):
        if needs_mesa(typed):
            continue
        arguments = with_own_tasks(invoke, with_own_device(small(typed), device))
        done = invoke(*arguments)
        assert done.code == 0, (arguments, done.err)
        if found := re.search(r"builds take them with --device '?(opencl:pthread-[^'\s]+)", done.err):
            device = found[1]
        said[typed[0]].append(done)
    assert "max_work_group=" in said["board"][0].out, "the hardware's parameters"
    packed, nhwc = (done.out for done in said["tasks"])
    assert "WEIGHT" in packed and packed != nhwc, "layouts have tasks of their own"
    assert device in said["records"][0].out
    tuned, objects, android = (done.out for done in said["build"])
    assert re.search(r"records: [1-9]\d* exact", tuned) and device in tuned, "what was measured is taken"
    with tarfile.open(next((folder / "objects").glob("*.tar"))) as archive:
        assert any(name.endswith(".o") for name in archive.getnames()), objects
    assert "android" in android and list((folder / "android").glob("*.so"))
    assert "passed: true" in said["verify"][0].out
    assert "OPERATOR" in said["bench"][0].out and "time on opencl" in said["bench"][0].out
    assert lab.status() is None, "the tutorial stops what it starts"
