"""A tuning run on two boards: both work, and one that hangs delays and spoils nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.tuning.plain import plain
from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board
from toolchain.errors import UsageError
from toolchain.models.load import Model
from toolchain.records.store import RecordStore
from toolchain.rpc import lab
from toolchain.tuning.boards import runner
from toolchain.tuning.events import Event, Notice, StepBegan, Trial
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.tune import tune

pytestmark = pytest.mark.slow
HOW = TuneOptions(trials=8, heaviest=1, tuner="random", repeat=2, min_repeat_ms=1, timeout_s=3)


def processes_of(board: str, state: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(state / "emulated" / board / "root") in process.cwd():
                found.append(process)
    return found


def test_both_work_and_each_record_says_where_it_was_measured(
    boards: list[Board], model: Model, store: RecordStore
) -> None:
    events: list[Event] = []
    result = tune(model, plain(boards[0]), boards, store, HOW, events.append)
    assert result.boards.keys() == {"a", "b"}
    assert sum(result.boards.values()) == result.to_json()["trials"] == 8
    assert all(result.boards.values())
    trials = [r for r in store.all() if r.provenance.trial is not None and not r.confirmed]
    measured = [record.provenance.board for record in trials]
    assert {name: measured.count(name) for name in ("a", "b")} == result.boards
    assert [
        event.board for event in events if isinstance(event, Trial) and event.stage == "search"
    ] == measured


def test_one_that_hangs_is_left_out(
    boards: list[Board], model: Model, store: RecordStore, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "GRACE_S", 4.0)
    events: list[Event] = []
    frozen: list[psutil.Process] = []

    def freeze_a_once(event: Event) -> None:
        events.append(event)
        if event == StepBegan("searching"):  # from now on it is sure to be asked
            # One that hangs before it offers itself anew is waited for, until the lab starts it again.
            until(lambda: all(counts["free"] == 2 for counts in lab.status().keys.values()))
            frozen.extend(processes_of("a", state))
            for process in frozen:
                process.suspend()

    result = tune(model, plain(boards[0]), boards, store, HOW, freeze_a_once)
    assert len(frozen) >= 1
    assert result.to_json()["trials"] == 8
    assert result.to_json()["failed"] == 0, "what hung on one board was measured on the other"
    said = [event.text for event in events if isinstance(event, Notice)]
    assert result.boards["b"] >= 7, said
    # The deadline of a session of several candidates and the patience from above, and nothing longer.
    assert "board a is away: no answer within 8 s: the server of board a is silent" in said


def test_boards_that_differ_are_not_tuned_together(
    boards: list[Board], model: Model, store: RecordStore
) -> None:
    other = replace(find_board("local"), name="other")
    with pytest.raises(UsageError, match=r"boards a \(x86_64\+emulated\) and other .* are not alike"):
        tune(model, plain(other), [boards[0], other], store, HOW, lambda _: None)
