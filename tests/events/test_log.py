"""What a command writes: whole lines, few enough, for its owner alone; and nothing that could stop it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.events.logs import BEGAN, write_log
from toolchain.events.lines import BeganLine, EndLine, Line, NoticeLine, RolloutLine, StepLine, TrialLine
from toolchain.events.log import KEPT, MOST_BYTES, EventLog, Follower, events_folder, log_files
from toolchain.events.rollouts import BoardDone, BoardMoved, BoardOutcome


def written() -> list[Line]:
    """Return all lines of the only log."""
    follower, lines = Follower(events_folder()), list[Line]()
    while found := follower.read():
        (more,) = found.values()
        lines += more
    return lines


@pytest.fixture
def log(state: Path) -> EventLog:
    begun = EventLog()
    begun.begin("tune", "small.onnx", ("b1",))
    assert state == events_folder().parent
    return begun


def trial(number: int, ms: float, best_ms: float) -> TrialLine:
    return TrialLine(task="44fe76e2", stage="search", number=number, ms=ms, best_ms=best_ms, board="b1")


def test_what_is_written_is_read_again(log: EventLog) -> None:
    log.write(StepLine(text="searching"))
    log.write(trial(1, 2.5, 2.5))
    log.end(EndLine(how="failed", message="the board went away"))
    log.end(EndLine(how="done"))
    began, step, measured, end = written()
    assert isinstance(began, BeganLine) and (began.kind, began.title, began.boards) == (
        *("tune", "small.onnx"),
        ("b1",),
    )
    assert isinstance(step, StepLine) and step.text == "searching"
    assert isinstance(measured, TrialLine) and (measured.ms, measured.board) == (2.5, "b1")
    assert isinstance(end, EndLine) and (end.how, end.message) == ("failed", "the board went away")


def test_only_its_owner_can_read_it(log: EventLog) -> None:
    (path,) = log_files(events_folder())
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    log.end(EndLine(how="done"))


def test_texts_of_others_are_escaped(log: EventLog) -> None:
    log.write(NoticeLine(text="\x1b[31mred\u202e \udcff <img src=x onerror=alert(1)>\n" + "x" * 999))
    log.end(EndLine(how="done"))
    notice = written()[1]
    assert isinstance(notice, NoticeLine) and notice.text.isprintable() and len(notice.text) < 500
    assert notice.text.startswith(r"\x1b[31mred\u202e \xff <img")


def test_a_step_that_counts_is_thinned_out(log: EventLog) -> None:
    for number in range(1, 200):
        log.write(StepLine(text=f"compiling {number}/199 conv2d"))
    log.write(StepLine(text="linking"))
    log.end(EndLine(how="done"))
    texts = [line.text for line in written() if isinstance(line, StepLine)]
    assert texts[0] == "compiling 1/199 conv2d" and texts[-2:] == ["compiling 199/199 conv2d", "linking"]
    assert len(texts) < 20


def test_bytes_that_a_board_got_are_thinned_out_and_its_end_is_not(log: EventLog) -> None:
    for sent in range(1000):
        log.write_rollout(BoardMoved(board="b1", step="receives", sent=sent))
    log.write_rollout(BoardMoved(board="b1", step="tests", sent=1000))
    log.write_rollout(BoardDone(board="b1", phase=1, outcome=BoardOutcome(state="installed")))
    log.end(EndLine(how="done"))
    events = [line.rollout for line in written() if isinstance(line, RolloutLine)]
    states = [event.step if isinstance(event, BoardMoved) else event.outcome.state for event in events]
    assert states[0] == "receives" and states[-2:] == ["tests", "installed"] and len(states) < 50


@pytest.mark.slow
def test_a_long_log_keeps_what_matters(log: EventLog) -> None:
    """A run of many trials: the curve, the news and the end are there, and the file has a limit."""
    most = 2 * MOST_BYTES // 120
    for number in range(1, most):
        best = 100.0 - number // (most // 50)
        log.write(trial(number, best if number % (most // 50) == 0 else 200.0, best))
    log.write(NoticeLine(text="b1 is away"))
    log.end(EndLine(how="done"))
    (path,) = log_files(events_folder())
    assert MOST_BYTES < path.stat().st_size < 1.3 * MOST_BYTES
    lines = written()
    assert isinstance(lines[-1], EndLine) and isinstance(lines[-2], NoticeLine)
    assert min(line.best_ms or 0 for line in lines if isinstance(line, TrialLine)) == pytest.approx(50, abs=1)


def test_old_logs_are_removed_but_not_those_of_commands_at_work(state: Path) -> None:
    for number in range(2 * KEPT):
        write_log(state / "events", BEGAN, name=f"20200101T000000{number:06}-1-tune.jsonl")
    oldest, *_ = log_files(state / "events")
    other = state / "events" / "notes.txt"
    other.touch()
    oldest.unlink()
    working = EventLog()
    working.begin("build", "old.onnx")
    (own,) = [path for path in log_files(state / "events") if path.name.endswith("-build.jsonl")]
    own.rename(oldest)  # as if it had begun first
    last = EventLog()
    last.begin("bench", "small.bundle")
    left = log_files(state / "events")
    assert left[0] == oldest and len(left) == KEPT + 1 and other.exists()
    for each in (working, last):
        each.end(EndLine(how="done"))


def test_a_log_named_for_the_future_is_the_first_to_go(state: Path) -> None:
    for number in range(KEPT):
        write_log(state / "events", BEGAN, name=f"29990101T000000{number:06}-1-tune.jsonl")
    present = write_log(state / "events", BEGAN, name="20200101T000000000000-1-tune.jsonl")
    last = EventLog()
    last.begin("bench", "small.bundle")
    left = log_files(state / "events")
    assert left[-2] == present and left[-1].name.endswith("-bench.jsonl") and len(left) == KEPT
    last.end(EndLine(how="done"))


def test_a_full_disk_stops_nothing(log: EventLog) -> None:
    os.close(log._handle)
    log._handle = os.open("/dev/full", os.O_WRONLY)
    for _ in range(3):
        log.write(StepLine(text="searching"))
    log.end(EndLine(how="done"))


@pytest.mark.parametrize("there", ["a file", "read-only"])
def test_a_folder_that_cannot_be_made_stops_nothing(state: Path, there: str) -> None:
    if there == "a file":
        state.touch()
    else:
        state.mkdir()
        (state / "events").symlink_to("/proc/self")
    nowhere = EventLog()
    nowhere.begin("tune", "small.onnx")
    nowhere.write(StepLine(text="searching"))
    nowhere.end(EndLine(how="done"))


def test_threads_write_whole_lines(log: EventLog) -> None:
    def work(name: str) -> None:
        for number in range(200):
            log.write(NoticeLine(text=f"{name}: {number}"))

    threads = [threading.Thread(target=work, args=(f"b{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.end(EndLine(how="done"))
    assert len(written()) == 802
