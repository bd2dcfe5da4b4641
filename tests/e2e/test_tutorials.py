"""The commands of a tutorial, typed one after the other: with a small network, and few trials."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.building.network import written
from tests.cli.running import Ran, Toolchain
from toolchain.rpc import lab
from toolchain.tuning import judge, network_bench

ROOT = Path(__file__).parent.parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
NETWORK = "zoo:squeezenet_v1.1"
SMALL = "squeezenet_v1.1.onnx"  # bundles are named after their files
BUDGET = {"--trials": "2", "--time": "120", "--early-stopping": "2"}

pytestmark = pytest.mark.slow


def commands(page: str) -> list[list[str]]:
    """Return what a reader types, as arguments of `toolchain`; a line that ends in a backslash goes on."""
    text = page.replace("\\\n", " ")
    typed = re.findall(r"^    \$ (.*)$", text, re.MULTILINE)
    assert typed and all(line.startswith("toolchain ") for line in typed), typed
    return [shlex.split(line)[1:] for line in typed]


def small(arguments: list[str]) -> list[str]:
    """Return a command with the small network and the small budget."""
    made = [SMALL if each == NETWORK else each for each in arguments]
    for option, value in BUDGET.items():
        if option in made:
            made[made.index(option) + 1] = value
    return made


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the small network where commands are typed, and no lab afterwards."""
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
    monkeypatch.setattr(judge, "_ROUNDS", 2)
    monkeypatch.setattr(judge, "_LAST_ROUNDS", 2)
    monkeypatch.setattr(network_bench, "_SAMPLE_S", 0.02)
    (folder / "toolchain.toml").touch()
    written(folder).rename(folder / SMALL)
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
