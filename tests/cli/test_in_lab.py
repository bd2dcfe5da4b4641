"""What is said of a board's part in the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.cli.commands.board_status import ask_lab
from toolchain.errors import ToolchainError
from toolchain.rpc import lab
from toolchain.rpc.lab import BoardStatus, LabStatus


def running(*leased: str, **states: str) -> LabStatus:
    boards = {name: BoardStatus("key", state, None) for name, state in states.items()}
    leases = tuple({"board": name, "user": f"user of {name}"} for name in leased)
    return LabStatus("127.0.0.1", 9, 1, boards, {}, leases)


@pytest.mark.usefixtures("state")
def test_lab_is_no_without_running_lab() -> None:
    assert ask_lab()("local") == {"lab": "no", "lab_user": None}


def test_each_board_has_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    found = running("taken", taken="serving", idle="serving", gone="away", new="starting", bad="aside")
    monkeypatch.setattr(lab, "status", lambda: found)
    state_of = ask_lab()
    assert {name: state_of(name)["lab"] for name in ("taken", "idle", "gone", "new", "bad", "other")} == {
        "taken": "leased", "idle": "free", "gone": "away", "new": "starting", "bad": "aside", "other": "no"
    }  # fmt: skip
    assert state_of("taken")["lab_user"] == "user of taken"
    assert state_of("idle")["lab_user"] is None


def test_a_lease_of_a_board_that_went_away_names_its_user_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "status", lambda: running("b", b="away"))
    assert ask_lab()("b") == {"lab": "away", "lab_user": "user of b"}


def test_a_lab_that_does_not_answer_is_no_error(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`board list` still shows the boards."""

    def silent() -> None:
        raise ToolchainError(f"the lab of {state} does not answer")

    monkeypatch.setattr(lab, "status", silent)
    assert ask_lab()("b") == {"lab": "unknown", "lab_user": None}
