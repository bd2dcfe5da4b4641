"""Candidates that share a session: what one does to it, and to the board, costs the others nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolchain.boards.inventory.lookup import local_board
from toolchain.processes.worker import WorkerDiedError
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards import runner
from toolchain.tuning.boards.measure import BoardBusyError, Request, SessionLostError, measure
from toolchain.tuning.boards.planned import PlanRequest, measure_plans
from toolchain.tuning.boards.pool import BoardLostError, PooledBoard
from toolchain.tuning.boards.runner import BoardRunner
from toolchain.tuning.options import TuneOptions

TASK = SimpleNamespace(id="c0ffee", name="stub", workload="c0ffee", flops=1)
FAILS = {"wrong": "wrong result", "hangs": "timeout", "raises": "runtime"}


class FakeWorker:
    """Measures as a session would in which candidates do what their names say."""

    def __init__(self) -> None:
        self.sessions: list[list[str]] = []

    def call(self, _deadline_s: float, function: object, *arguments: object) -> object:
        if function is not measure:
            return None
        (request,) = arguments
        assert isinstance(request, Request)
        names = [subject.function for subject in request.subjects]
        self.sessions.append(names)
        results: list[Result] = []
        spoilt = False
        for name in names:
            what = name.partition("_")[0]
            if what == "kills":
                raise WorkerDiedError("the process ended with exit code -11")
            if what == "waits" and len(self.sessions) <= int(name.partition("_")[2]):
                raise BoardBusyError("others have measured there for 10 s")
            if what == "shuts" and len(self.sessions) <= int(name.partition("_")[2]):
                raise SessionLostError("Check failed: code == kReturn: kShutdown")
            if what == "unplugs":
                raise BoardLostError("gone")
            failure = FAILS.get(what) or ("wrong result" if spoilt else None)
            results.append(Result(failure=failure) if failure else Result((1.0,)))
            spoilt = spoilt or what == "spoils"
            if failure:
                break
        return results


class OneBoard(BoardRunner):
    """Has a board that is always there."""

    def __init__(self) -> None:
        super().__init__(
            [local_board()],
            SimpleNamespace(host="", port=0),
            SimpleNamespace(
                threads=1,
                rates=None,
                cpu="cpu",
                kind="cpu",
                triple="x86_64-",
                level="",
                device="",
                recorded_as="",
            ),
            TuneOptions(),
            lambda _event: None,
        )
        self.worker = FakeWorker()
        pooled = self.pool.all[0]
        pooled.worker = self.worker  # type: ignore[assignment]

        @contextmanager
        def take() -> Iterator[object]:
            yield pooled

        @contextmanager
        def tracker() -> Iterator[None]:
            yield None

        self.pool = SimpleNamespace(  # type: ignore[assignment]
            all=[pooled], take=take, tracker=tracker, lost=lambda _pooled: False, close=lambda: None
        )
        self.expect(TASK, [None])


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[OneBoard]:
    monkeypatch.setattr(runner, "wait_for_server", lambda *_arguments: None)
    made = OneBoard()
    yield made
    made.close()


def built(names: Sequence[str], library: str = "shared.so") -> list[BuiltCandidate]:
    candidate = Candidate(Entry("", "", ""), None, (), 1)
    return [BuiltCandidate(candidate, Path(library), function=name) for name in names]


def failures(results: Sequence[Result]) -> list[str | None]:
    return [result.failure for result in results]


def test_sound_candidates_share_one_session(board: OneBoard) -> None:
    results = board.run(TASK, built(["a", "b", "c"]))
    assert failures(results) == [None] * 3
    assert board.worker.sessions == [["a", "b", "c"]]
    assert all(result.board == "local" for result in results)
    assert board.in_use_s["local"] > 0


@pytest.mark.parametrize("bad", FAILS)
def test_one_that_fails_costs_itself_and_others_go_on_in_a_new_session(board: OneBoard, bad: str) -> None:
    assert failures(board.run(TASK, built(["a", bad, "c"]))) == [None, FAILS[bad], None]
    assert board.worker.sessions == [["a", bad, "c"], [bad, "c"], ["c"]]


def test_what_one_did_to_the_process_is_not_counted_against_others(board: OneBoard) -> None:
    assert failures(board.run(TASK, built(["spoils", "b", "c", "wrong"]))) == [
        None,
        None,
        None,
        "wrong result",
    ]
    assert board.worker.sessions[1] == ["b", "c", "wrong"], "it was measured again, first in its session"


def test_one_that_ends_the_worker_is_found(board: OneBoard) -> None:
    assert failures(board.run(TASK, built(["a", "b", "kills", "d"]))) == [None, None, "runtime", None]
    assert board.worker.sessions[1:] == [["a"], ["b"], ["kills"], ["d"]]


def test_one_that_no_board_survives_is_found(board: OneBoard) -> None:
    results = board.run(TASK, built(["a", "unplugs", "c"]))
    assert failures(results) == [None, "upload", None]
    assert results[1].message == "a board went away 3 times; the last was local: gone"


def test_a_session_that_is_lost_on_this_host_is_opened_again_once(board: OneBoard) -> None:
    assert failures(board.run(TASK, built(["shuts_1", "b"]))) == [None, None]
    assert board.worker.sessions == [["shuts_1", "b"]] * 2


def test_one_that_loses_every_session_has_failed(board: OneBoard) -> None:
    (result,) = board.run(TASK, built(["shuts_9"]))
    assert result.failure == "upload" and "kShutdown" in result.message
    assert len(board.worker.sessions) == 2


def test_others_who_measure_there_cost_no_candidate(board: OneBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failures(board.run(TASK, built(["waits_5"]))) == [None]
    assert len(board.worker.sessions) == 6
    monkeypatch.setattr(runner, "_OTHERS_S", 0.0)
    (result,) = board.run(TASK, built(["waits_99"]))
    assert result.failure == "upload" and "others have measured there" in result.message


def test_libraries_have_sessions_of_their_own_and_what_was_not_built_has_none(board: OneBoard) -> None:
    broken = BuiltCandidate(built(["x"])[0].candidate, None, "link", "undefined")
    results = board.run(
        TASK, [*built(["a"], "one.so"), broken, *built(["b"], "two.so"), *built(["c"], "two.so")]
    )
    assert failures(results) == [None, "link", None, None]
    assert board.worker.sessions == [["a"], ["b", "c"]]


def test_comparisons_owe_nothing_to_others(board: OneBoard) -> None:
    rounds = board.compare(TASK, built(["spoils", "b"]), 2)
    assert [failures(results) for results in rounds] == [[None, None]] * 2
    assert all(len(names) == 1 for names in board.worker.sessions)


def test_a_board_is_judged_by_what_it_measures(board: OneBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, list[Result]]] = []

    def measured(pooled: PooledBoard, results: list[Result]) -> None:
        told.append((pooled.board.name, results))

    monkeypatch.setattr(board._watch, "measured", measured)
    results = board.run(TASK, built(["a", "b"]))
    assert told == [("local", results)]


@pytest.mark.parametrize("probed", [False, True])
def test_a_board_is_looked_at_before_it_is_used(board: OneBoard, probed: bool) -> None:
    if probed:
        assert failures(board.probe(TASK, built(["known"])[0])) == [None]
        board._watch._speed.ask_again("local")
    board.run(TASK, built(["a"]))
    board.run(TASK, built(["b"]))
    assert board.worker.sessions == ([["known"], ["known"], ["a"], ["b"]] if probed else [["a"], ["b"]])


def test_one_that_is_not_fit_is_passed_over(board: OneBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    board.probe(TASK, built(["known"])[0])
    answers = iter([False, False, True])
    monkeypatch.setattr(board._watch, "fit", lambda _pooled: next(answers))
    assert failures(board.run(TASK, built(["a"]))) == [None]
    assert board.worker.sessions == [["known"], ["a"]]


def test_what_a_board_is_put_aside_for_is_not_held_against_a_candidate(
    board: OneBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside = iter([False, False, True, False, False, False])
    monkeypatch.setattr(board._watch, "lost", lambda _pooled, _reason: next(aside))
    assert failures(board.run(TASK, built(["unplugs"]))) == ["upload"]
    assert len(board.worker.sessions) == 6


@pytest.mark.parametrize(
    ("count", "lanes", "sizes"),
    [(8, 1, [8]), (8, 3, [3, 3, 2]), (8, 8, [2] * 4), (3, 16, [2, 1]), (1, 2, [1])],
)
def test_boards_get_two_candidates_at_least_as_far_as_there_are(
    count: int, lanes: int, sizes: list[int]
) -> None:
    given = built([str(number) for number in range(count)])
    shares = runner._shares(given, lanes)
    assert [len(share) for share in shares] == sizes
    assert [item for share in shares for item in share] == given


class PlannedWorker:
    """Measures plans, which here are the names of candidates; `unplugs` ends the session."""

    def __init__(self) -> None:
        self.sessions: list[tuple[str, ...]] = []

    def call(self, _deadline_s: float, function: object, *arguments: object) -> object:
        if function is not measure_plans:
            return None
        (request,) = arguments
        assert isinstance(request, PlanRequest)
        names = tuple(map(str, request.plans))
        self.sessions.append(names)
        results = []
        for name in names:
            failure = "upload" if name == "unplugs" else FAILS.get(name)
            results.append(Result(failure=failure) if failure else Result((1.0,)))
            if name == "unplugs":
                break
        return results


class ByName:
    """A planner whose plans are the names of candidates."""

    def plan(self, _task: object, _key: object, built: BuiltCandidate, *_how: object) -> str:
        if built.library == Path("gone.so"):
            raise FileNotFoundError("gone.so")
        return built.function


@pytest.fixture
def planned(board: OneBoard) -> tuple[OneBoard, PlannedWorker]:
    worker = PlannedWorker()
    board._planner = ByName()  # type: ignore[assignment]
    board.pool.all[0].worker = worker  # type: ignore[assignment]
    known = SimpleNamespace(outputs=SimpleNamespace(exists=lambda: True))
    board.expect(TASK, [known])
    return board, worker


def test_by_plans_a_failure_ends_no_session(planned: tuple[OneBoard, PlannedWorker]) -> None:
    board, worker = planned
    results = board.run(TASK, built(["a", "wrong", "hangs", "raises"]))
    assert failures(results) == [None, "wrong result", "timeout", "runtime"]
    assert worker.sessions == [("a", "wrong", "hangs", "raises")]


def test_by_plans_a_board_that_goes_away_costs_nobody_the_results_before(
    planned: tuple[OneBoard, PlannedWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    board, worker = planned
    monkeypatch.setattr(board.pool, "lost", lambda _pooled: True)
    results = board.run(TASK, built(["a", "unplugs", "c"]))
    assert failures(results) == [None, "upload", None]
    assert worker.sessions[0] == ("a", "unplugs", "c") and worker.sessions[1][0] == "unplugs"
    assert results[1].message.startswith("a board went away 3 times")


def test_by_plans_the_first_of_an_unknown_task_goes_alone(planned: tuple[OneBoard, PlannedWorker]) -> None:
    board, worker = planned
    answers = iter([False, True, True])
    board.expect(TASK, [SimpleNamespace(outputs=SimpleNamespace(exists=lambda: next(answers)))])
    assert failures(board.run(TASK, built(["a", "b", "c"]))) == [None] * 3
    assert worker.sessions == [("a",), ("b", "c")]


def test_by_plans_a_library_that_is_gone_fails_alone(planned: tuple[OneBoard, PlannedWorker]) -> None:
    board, worker = planned
    (result,) = board.run(TASK, built(["a"], "gone.so"))
    assert (result.failure, result.message) == ("upload", "gone.so")
    assert worker.sessions == []
