"""`toolchain board accept`: its options, exit codes and documents; the steps are fakes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.documents import verified
from tests.cli.running import Toolchain
from toolchain.acceptance import run
from toolchain.acceptance.step import AcceptStep, StepEnd

pytestmark = pytest.mark.usefixtures("state")


def ended(end: StepEnd, _context: object) -> StepEnd:
    return end


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> dict[str, StepEnd]:
    """Return the ends of a run's steps by name, to be filled."""
    found = {"facts": StepEnd("passed"), "verify:cpu:mobilenet": StepEnd("passed", "", verified())}

    def planned(_profile: object) -> list[AcceptStep]:
        return [AcceptStep(name, f"does {name}", partial(ended, end)) for name, end in found.items()]

    monkeypatch.setattr(run, "planned_steps", planned)
    return found


def test_a_dry_run_lists_the_steps_and_asks_nobody(invoke: Toolchain) -> None:
    ran = invoke("board", "accept", "local", "--dry-run", "--skip", "tune", "--json")
    assert ran.code == 0
    steps = {each["name"]: each["begins"] for each in ran.document["steps"]}
    assert steps["facts"] == "always" and steps["bench:cpu"] == "while time is left"
    assert steps["tune:cpu"] == "left out by --skip" and "verify:cpu:mobilenet" in steps
    assert "verify:opencl:mobilenet" in invoke("board", "accept", "local", "--dry-run").out


def test_accept_passes(invoke: Toolchain, folder: Path, ends: dict[str, StepEnd]) -> None:
    ends["rates"] = StepEnd("missed", "slow")
    ran = invoke("board", "accept", "local", "--json", "-o", "found")
    assert ran.code == 0, ran.err
    assert ran.document["passed"] and ran.document["board"] == "local"
    assert Path(ran.document["document"]).parent == folder / "found"
    published = json.loads(Path(ran.document["document"]).read_text())
    assert published["board_class"] == "x86_64" and "board" not in published and "page" not in published
    ran = invoke("board", "accept", "local")
    assert ran.code == 0 and "steps: 2 passed, 0 failed, 1 missed, 0 skipped" in ran.out
    assert "facts: passed before" in ran.err


def test_wrong_numbers_are_exit_code_4(invoke: Toolchain, ends: dict[str, StepEnd]) -> None:
    ends["verify:cpu:mobilenet"] = StepEnd("failed", "wrong numbers", verified(error=0.5), wrong=True)
    ran = invoke("board", "accept", "local", "--json")
    assert ran.code == 4 and not ran.document["passed"]
    ran = invoke("board", "accept", "local")
    assert ran.code == 4 and ran.says("board local has wrong numbers: verify:cpu:mobilenet")


def test_another_failure_is_exit_code_1(invoke: Toolchain, ends: dict[str, StepEnd]) -> None:
    ends["facts"] = StepEnd("failed", "the step could not be done")
    ran = invoke("board", "accept", "local")
    assert ran.code == 1 and ran.says("board local did not pass: facts")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("local", "--skip", "tun"), "--skip tun"),
        (("local", "--time", "soon"), "no duration"),
        (("nosuch",), "nosuch"),
        (("rk3399",), "board class"),
    ],
)
def test_refuses_unusable_arguments(invoke: Toolchain, arguments: tuple[str, ...], says: str) -> None:
    ran = invoke("board", "accept", *arguments)
    assert ran.code == 2 and ran.says(says)


def test_refuses_unwritable_folder(invoke: Toolchain, folder: Path, ends: dict[str, StepEnd]) -> None:
    assert ends
    (folder / "file").touch()
    ran = invoke("board", "accept", "local", "-o", folder / "file" / "x")
    assert ran.code == 1 and ran.says("cannot write")
