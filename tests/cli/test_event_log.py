"""What commands write for `toolchain ui`: how they ended, and the events that the terminal shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.tuning.runs import CONV, DENSE, batch, begun
from toolchain.cli.progress import event_log, step_logger
from toolchain.cli.rollouts.live import show_rollout
from toolchain.cli.rollouts.standing import RolloutStanding
from toolchain.cli.tuning.progress import tuning_progress
from toolchain.errors import ToolchainError
from toolchain.events.lines import Line, RolloutLine
from toolchain.events.log import Follower, events_folder
from toolchain.events.rollouts import (
    AnyEvent,
    BoardCycled,
    BoardDone,
    BoardMoved,
    BoardOutcome,
    GateJudged,
    PhaseStarted,
    RolloutBegan,
    RolloutEnded,
    Rules,
)
from toolchain.tuning.events import LeftOut, Notice, RunVerdict, Trial


def written() -> list[dict[str, object]]:
    """Return the lines of the only log, without their times."""
    found: list[Line] = [line for lines in Follower(events_folder()).read().values() for line in lines]
    return [line.model_dump(exclude={"at"}, exclude_defaults=True) | {"event": line.event} for line in found]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("error", "how", "message"),
    [
        (None, "done", None),
        (ToolchainError("no board", "add one"), "failed", "no board"),
        (ValueError("odd"), "failed", "ValueError: odd"),
        (KeyboardInterrupt(), "interrupted", None),
        (SystemExit(143), "interrupted", None),
    ],
)
def test_the_last_line_says_how_it_ended(error: BaseException | None, how: str, message: str | None) -> None:
    def work() -> None:
        with event_log("bench", Path("small.bundle"), ["local"]):
            if error:
                raise error

    if error:
        with pytest.raises(type(error)):
            work()
    else:
        work()
    began, end = written()
    assert began == {"event": "began", "kind": "bench", "title": "small.bundle", "boards": ("local",)}
    assert end == {"event": "ended", "how": how} | ({"message": message} if message else {})


@pytest.mark.usefixtures("state")
def test_a_tuning_run_writes_what_the_terminal_shows(capsys: pytest.CaptureFixture[str]) -> None:
    with event_log("tune", "small.onnx", ["b1", "b2"]) as log, tuning_progress(log) as listener:
        for event in [*begun(), *batch(), Notice("b2 is away"), LeftOut((DENSE,))]:
            listener(event)
        listener(Trial(CONV, "search", float("inf"), float("nan"), board="b1", temperature_c=61.5))
        listener(RunVerdict("these tasks: 7.000 ms -> 4.000 ms per inference", False, 7.0, 4.0))
    assert "b2 is away" in capsys.readouterr().err
    lines = written()
    assert [line["event"] for line in lines] == [
        *("began", "tasks", "step", "trial", "trial", "step", "turn", "trial", "trial", "trial", "turn"),
        *("notice", "left-out", "trial", "verdict", "ended"),
    ]
    assert lines[1]["trials"] == 20
    assert lines[1]["tasks"] == (
        {"id": "44fe76e2", "name": "fused_conv2d", "weight": 3, "flops": 8_000_000},
        {"id": "90ab12cd", "name": "fused_dense", "weight": 1, "flops": 1_000_000},
    )
    trials = [line for line in lines if line["event"] == "trial"]
    assert [(line["stage"], line["number"], line["ms"], line["best_ms"]) for line in trials] == [
        ("default", 0, 2.0, 2.0),
        ("default", 0, 1.0, 1.0),
        ("search", 1, 1.0, 1.0),
        ("search", 2, None, 1.0),
        ("search", 3, 1.5, 1.0),
        ("search", 4, None, None),
    ]
    assert (lines[-2]["before_ms"], lines[-2]["after_ms"], lines[-2]["in_network"]) == (7.0, 4.0, False)
    assert trials[3]["failure"] == "timeout" and trials[-1]["temperature_c"] == 61.5


@pytest.mark.usefixtures("state")
def test_an_event_that_no_reader_would_accept_stops_nothing() -> None:
    with event_log("tune", "small.onnx") as log, tuning_progress(log) as listener:
        for event in begun():
            listener(event)
        listener(Trial(CONV, "search", -1.0, 1.0, board="b1"))
    assert [line["event"] for line in written()][-2:] == ["step", "ended"]


@pytest.mark.usefixtures("state")
def test_a_rollout_writes_what_the_terminal_shows(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[AnyEvent] = [
        RolloutBegan(
            id="r1",
            app="app",
            version="1.0.0",
            digest="ab",
            lab=None,
            phases=(("one",), ("two",)),
            rules=Rules(),
        ),
        PhaseStarted(phase=1),
        BoardMoved(board="one", step="receives", sent=5),
        BoardDone(board="one", phase=1, outcome=BoardOutcome(state="installed", bytes_sent=9)),
        BoardDone(board="two", phase=2, outcome=BoardOutcome(state="refused", error="old", bytes_sent=9)),
        GateJudged(phase=1, passed=False, reason="1 board failed"),
        RolloutEnded(complete=False, reason="1 board failed"),
    ]
    with (
        event_log("deploy", "app 1.0.0", ["one", "two"]) as log,
        show_rollout(RolloutStanding(), log) as show,
    ):
        for event in events:
            show(event)
    _, *lines, _ = [line for lines in Follower(events_folder()).read().values() for line in lines]
    assert [line.rollout for line in lines if isinstance(line, RolloutLine)] == events
    assert [line.rollout.works for line in lines if isinstance(line.rollout, BoardDone)] == [True, False]
    assert "two: refused (0.0 s, 9 bytes sent): old" in capsys.readouterr().err


@pytest.mark.usefixtures("state")
def test_texts_of_a_rollout_are_fit_to_be_shown() -> None:
    hostile = BoardOutcome(state="failed", error="\x1b[2J" + "x" * 1000)
    with event_log("rollback", "app", ["one"]) as log:
        log.write_rollout(BoardDone(board="one", phase=0, outcome=hostile))
        log.write_rollout(BoardCycled(board="one", answered_s=float("nan"), text="no JSON has such a number"))
    ((_, line, _),) = Follower(events_folder()).read().values()
    error = line.rollout.outcome.error
    assert error.startswith("\\x1b[2J") and len(error) < 310
    assert len(hostile.error or "") == 1004, "the event itself stays as it is"


@pytest.mark.usefixtures("state")
def test_steps_are_written_and_said() -> None:
    said: list[str] = []
    with event_log("build", "small.onnx for rk3399") as log:
        tell = step_logger(log, said.append)
        tell("reading the network")
        tell("linking")
    assert said == ["reading the network", "linking"]
    assert [line.get("text") for line in written()[1:-1]] == said
