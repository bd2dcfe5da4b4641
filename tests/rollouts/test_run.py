"""Rollouts to real installers: phases, gates, failures, stops, what is sent twice and what is not."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.rollouts.toys import APP, CLOCK, delivery, toy_board, write_policy
from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.boards.transport import LostError
from toolchain.cli.rollouts.standing import RolloutStanding
from toolchain.events.rollouts import (
    BoardDone,
    BoardMoved,
    BoardOutcome,
    CarrierEvent,
    GateJudged,
    PhaseStarted,
    RolloutEnded,
    Rules,
)
from toolchain.releases.export import Delivery
from toolchain.rollouts import attempt, installer
from toolchain.rollouts.attempt import Attempt, head_for, new_number
from toolchain.rollouts.course import Course, begin, outcomes_of, passed_phases
from toolchain.rollouts.fleet import fleet_status, preview, status_of
from toolchain.rollouts.installer import InstallerLine, Progress
from toolchain.rollouts.journal import Journal, read_journal
from toolchain.rollouts.rollback import roll_back
from toolchain.rollouts.ssh import SshCarrier

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toys", "state")]


def fleet(folder: Path, count: int) -> list[Board]:
    return [toy_board(folder / f"b{number:03}") for number in range(count)]


def roll_out(
    folder: Path, given: Delivery, boards: list[Board], rules: Rules, stop: threading.Event | None = None
) -> tuple[RolloutStanding, list[CarrierEvent], Path]:
    """Run a rollout to its end; return its standing, its events and its journal."""
    path = folder / f"{time.monotonic_ns()}.jsonl"
    return (*followed(path, given, begin(given.signed, boards, rules), stop), path)


def followed(
    path: Path, given: Delivery, course: Course, stop: threading.Event | None = None
) -> tuple[RolloutStanding, list[CarrierEvent]]:
    standing = RolloutStanding()
    events: list[CarrierEvent] = [*course.history()]
    for event in events:
        standing.take(event)
    with Journal(path) as journal:
        for event in journal.keep(SshCarrier().send(given, course, stop or threading.Event())):
            standing.take(event)
            events.append(event)
    return standing, events


def outcomes(standing: RolloutStanding) -> dict[str, BoardOutcome]:
    return {end.board: end.outcome for end in standing.ends()}


def go_back(boards: list[Board], app: str | None = None) -> dict[str, BoardOutcome]:
    return {end.board: end.outcome for end in roll_back(boards, app, 32)}


def test_phases_follow_each_other_and_the_journal_has_all(tmp_path: Path) -> None:
    boards = fleet(tmp_path, 5)
    rules = Rules(phases=("1", "50%", "100%"), pause_s=0.2)
    standing, events, path = roll_out(tmp_path, delivery(tmp_path), boards, rules)
    assert standing.complete and standing.all_work
    assert [event.phase for event in events if isinstance(event, PhaseStarted)] == [1, 2, 3]
    assert [event.passed for event in events if isinstance(event, GateJudged)] == [True] * 3
    kept = read_journal(path)
    assert outcomes_of(kept) == outcomes(standing) and kept[-1] == events[-1]
    assert kept == [event for event in events if not isinstance(event, BoardMoved)]
    rows = fleet_status(boards, 32)
    assert [(row.state, row.version, row.trust) for row in rows] == [("active", "2.0.0", 1)] * 5


def test_the_same_again_sends_no_part_and_one_changed_part_is_all_that_is_sent(tmp_path: Path) -> None:
    boards = fleet(tmp_path, 1)
    first = delivery(tmp_path, "1.0.0", padding=300_000)
    roll_out(tmp_path, first, boards, Rules())
    again, _, _ = roll_out(tmp_path, first, boards, Rules())
    outcome = outcomes(again)["b000"]
    assert (outcome.state, outcome.bytes_sent) == ("unchanged", len(head_for(boards[0], first, new_number())))
    second = delivery(tmp_path, "1.1.0", padding=300_000)
    update, _, _ = roll_out(tmp_path, second, boards, Rules())
    library = max(second.signed.release.sizes)
    sent = outcomes(update)["b000"].bytes_sent - len(head_for(boards[0], second, new_number()))
    assert outcomes(update)["b000"].state == "installed" and sent / library <= 1.02


def test_a_failure_ends_the_rollout_after_its_phase(tmp_path: Path) -> None:
    boards = fleet(tmp_path, 4)
    write_policy(tmp_path / "b000", **{"class": "pynq"})
    rules = Rules(phases=("1", "100%"))
    standing, _, _ = roll_out(tmp_path, delivery(tmp_path), boards, rules)
    assert not standing.complete and "1 board failed" in standing.reason
    assert [(end.board, end.outcome.state) for end in standing.ends()] == [
        ("b000", "refused"),
        *((f"b00{number}", "skipped") for number in (1, 2, 3)),
    ]


def test_a_wrong_release_is_undone_on_the_canary_and_reaches_no_other(tmp_path: Path) -> None:
    boards = fleet(tmp_path, 3)
    roll_out(tmp_path, delivery(tmp_path, "1.0.0"), boards, Rules())
    bad = delivery(tmp_path, "2.0.0", library="times 3")
    standing, _, _ = roll_out(tmp_path, bad, boards, Rules(phases=("1", "100%")))
    first = outcomes(standing)["b000"]
    assert not standing.complete and first.state == "refused" and first.cause and first.cause.step == "test"
    assert {row.version for row in fleet_status(boards, 32)} == {"1.0.0"}


def test_boards_go_back_and_forth(tmp_path: Path) -> None:
    boards = fleet(tmp_path, 2)
    for version in ("1.0.0", "2.0.0"):
        roll_out(tmp_path, delivery(tmp_path, version), boards, Rules())
    found = go_back(boards)
    assert [(o.state, o.version) for o in found.values()] == [("rolled-back", "1.0.0")] * 2
    assert {row.version for row in fleet_status(boards, 32)} == {"1.0.0"}
    none = go_back(fleet(tmp_path / "other", 1), APP)
    assert none["b000"].error and "no release" in none["b000"].error


def lost_once(monkeypatch: pytest.MonkeyPatch, caller: ModuleType, verb: str, *, heard: bool) -> None:
    """Lose the link once in a command of edge-rt: as it begins, or if it was `heard`, before its answer."""
    given, calls = getattr(installer, verb), iter([True])

    def command(*words: object) -> InstallerLine:
        lost = next(calls, False)
        line = given(*words) if heard or not lost else None
        if lost:
            raise LostError("the link broke")
        assert isinstance(line, InstallerLine)
        return line

    monkeypatch.setattr(caller, verb, command)


def test_a_rollback_whose_answer_was_lost_is_done_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boards = fleet(tmp_path, 1)
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        roll_out(tmp_path, delivery(tmp_path, version), boards, Rules())
    lost_once(monkeypatch, installer, "roll_back", heard=True)
    found = [go_back(boards)["b000"] for _ in range(3)]
    assert [(each.state, each.version) for each in found] == [
        ("offline", None),
        ("rolled-back", "2.0.0"),
        ("rolled-back", "3.0.0"),  # a command of its own: the one before was answered
    ]
    assert "again goes on" in found[0].hint


def test_a_rollback_that_the_board_never_heard_is_done_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boards = fleet(tmp_path, 1)
    for version in ("1.0.0", "2.0.0"):
        roll_out(tmp_path, delivery(tmp_path, version), boards, Rules())
    lost_once(monkeypatch, installer, "roll_back", heard=False)
    assert go_back(boards)["b000"].state == "offline"
    found = go_back(boards)["b000"]
    assert (found.state, found.version) == ("rolled-back", "1.0.0")


def test_what_an_earlier_rollout_met_is_not_the_answer_to_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board, given = toy_board(tmp_path / "b"), delivery(tmp_path)
    write_policy(tmp_path / "b", health=["sh", "-c", "echo no sensor; false"], health_tries=1)
    assert Attempt(board, given, Progress()).run().state == "rolled-back"
    write_policy(tmp_path / "b")
    lost_once(monkeypatch, attempt, "install", heard=False)
    later = Attempt(board, given, Progress())
    with pytest.raises(LostError):
        later.run()
    assert later.run().state == "installed"


def test_another_statement_of_the_bundle_is_sent_alone_and_counts(tmp_path: Path) -> None:
    boards = fleet(tmp_path, 1)
    roll_out(tmp_path, delivery(tmp_path, "8.0.0", padding=300_000), boards, Rules())
    again = delivery(tmp_path, "10.0.0", padding=300_000, bundle_of="8.0.0")
    planned = preview(boards, again, 1)[0]
    assert (planned.action, planned.version) == ("install", "8.0.0")
    standing, _, _ = roll_out(tmp_path, again, boards, Rules(phases=("1", "100%"), pause_s=0.1))
    outcome = outcomes(standing)["b000"]
    assert standing.complete and (outcome.state, outcome.version) == ("installed", "10.0.0")
    assert outcome.bytes_sent == len(head_for(boards[0], again, new_number())) == planned.bytes
    status = status_of(boards[0])
    app = status.find(APP) if status else None
    assert app and (app.version, app.newest, app.digest) == ("10.0.0", "10.0.0", again.signed.digest)
    older, _, _ = roll_out(tmp_path, delivery(tmp_path, "9.5.0"), boards, Rules())
    cause = outcomes(older)["b000"].cause
    assert cause and (outcomes(older)["b000"].state, cause.code) == ("refused", "version")


def test_a_board_that_lost_its_newest_version_says_the_way_out(tmp_path: Path) -> None:
    board = toy_board(tmp_path / "b")
    roll_out(tmp_path, delivery(tmp_path, "1.0.0"), [board], Rules())
    newest = tmp_path / "b" / "field" / APP / "newest"
    newest.write_bytes(b"\0")
    standing, _, _ = roll_out(tmp_path, delivery(tmp_path), [board], Rules(window_s=0))
    outcome = outcomes(standing)["b"]
    assert outcome.state == "refused" and "`echo 2.0.0 >newest` in that folder" in str(outcome.error)
    assert outcome.hint == "write that file there: `toolchain board shell b`"
    newest.write_text("1.0.0\n")
    assert roll_out(tmp_path, delivery(tmp_path), [board], Rules())[0].complete


def test_a_dry_run_says_what_and_why(tmp_path: Path) -> None:
    boards = fleet(tmp_path, 3)
    roll_out(tmp_path, delivery(tmp_path, "1.0.0"), boards[:2], Rules())
    roll_out(tmp_path, delivery(tmp_path, "2.0.0"), boards[:1], Rules())
    found = preview(boards, delivery(tmp_path, "2.0.0"), 32)
    assert [(each.action, each.version) for each in found] == [
        ("nothing", "2.0.0"),
        ("install", "1.0.0"),
        ("install", None),
    ]


def test_a_stopped_rollout_goes_on_where_it_was(tmp_path: Path) -> None:
    boards = fleet(tmp_path, 6)
    for board in boards:
        write_policy(tmp_path / board.name, health=["sleep", "0.5"])
    given, stop = delivery(tmp_path), threading.Event()
    active = tmp_path / boards[0].name / "field" / APP / "current"  # set before its health is asked for

    def stop_then() -> None:
        until(active.is_symlink)
        stop.set()

    threading.Thread(target=stop_then, daemon=True).start()
    standing, _, path = roll_out(tmp_path, given, boards, Rules(at_once=2), stop)
    done = [end.board for end in standing.ends() if end.outcome.state == "installed"]
    assert not standing.complete and 0 < len(done) < 6, standing.ends()
    kept = outcomes_of(read_journal(path))
    course = Course(standing.began, {b.name: b for b in boards}, kept, resumed=True)
    more, _ = followed(path, given, course)
    assert more.complete and more.all_work
    assert [outcomes(more)[name] for name in done] == [outcomes(standing)[name] for name in done]


@pytest.mark.parametrize("works", [True, False])
def test_what_was_stopped_before_its_gate_was_passed_is_judged_before_it_goes_on(
    tmp_path: Path, works: bool
) -> None:
    boards, given, stop = fleet(tmp_path, 3), delivery(tmp_path, "2.0.0"), threading.Event()
    roll_out(tmp_path, delivery(tmp_path, "1.0.0"), boards, Rules())
    rules = Rules(phases=("1", "100%"), pause_s=600.0)

    course, path = begin(given.signed, boards, rules), tmp_path / "stopped.jsonl"
    with Journal(path) as journal:
        for event in journal.keep(SshCarrier().send(given, course, stop)):
            if isinstance(event, BoardDone):
                assert event.board == "b000"
                threading.Timer(0.3, stop.set).start()  # in the pause behind it
    assert isinstance(event, RolloutEnded) and event.reason == "it was stopped"
    if not works:
        go_back(boards[:1])
    kept = read_journal(path)
    assert passed_phases(kept) == frozenset()
    began = course.began.model_copy(update={"rules": rules.model_copy(update={"pause_s": 0.2})})
    resumed = Course(began, course.boards, outcomes_of(kept), passed_phases(kept), resumed=True)
    standing, events = followed(path, given, resumed)
    gates = [(event.phase, event.passed) for event in events if isinstance(event, GateJudged)]
    phases = [event.phase for event in events if isinstance(event, PhaseStarted)]
    if works:
        assert (gates, phases, standing.complete) == ([(1, True), (2, True)], [2], True)
        assert passed_phases(read_journal(path)) == {1, 2}
    else:
        assert (gates, phases, standing.complete) == ([(1, False)], [], False)
        assert "b000 did not run the release any more" in standing.reason


@pytest.mark.parametrize(
    ("fault", "state", "said"),
    [
        ("clock", "refused", "clock"),
        ("health", "rolled-back", "health"),
        ("killed", "failed", "without a result"),
        ("gone", "failed", "is gone"),
    ],
)
def test_a_board_with_a_fault_ends_as_it_must(tmp_path: Path, fault: str, state: str, said: str) -> None:
    board = toy_board(tmp_path / "b", {"FIELD_NOW": "1000"} if fault == "clock" else CLOCK)
    if fault == "health":
        write_policy(tmp_path / "b", health=["false"], health_tries=1)
    if fault == "killed":
        write_policy(tmp_path / "b", health=["sh", "-c", "kill -9 $PPID"])
    if fault == "gone":
        (tmp_path / "b").rmdir()
    standing, _, _ = roll_out(tmp_path, delivery(tmp_path), [board], Rules(window_s=0))
    outcome = outcomes(standing)["b"]
    assert outcome.state == state and outcome.error and said in outcome.error, outcome
