"""Jobs of a phase: in parallel, tried again, stopped."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from tests.rollouts.made import outcome
from tests.waiting import until
from toolchain.events.rollouts import BoardOutcome
from toolchain.rollouts.ssh import JobPool

PATIENCE_S = 60.0


@dataclass
class FakeJob:
    """A job whose results are given; None: to be tried again."""

    name: str
    results: list[BoardOutcome | Exception | None] = field(default_factory=lambda: [outcome()])
    not_before: float = 0.0
    gate: threading.Barrier | None = None

    @property
    def board(self) -> SimpleNamespace:
        return SimpleNamespace(name=self.name)

    def run(self) -> BoardOutcome | None:
        if self.gate:
            self.gate.wait(PATIENCE_S)
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    def give_up(self) -> BoardOutcome:
        return outcome("offline", None)


class Phase:
    """Runs jobs and keeps what became of them."""

    def __init__(self, *jobs: FakeJob, at_once: int = 4) -> None:
        self.jobs, self.at_once, self.stop = jobs, at_once, threading.Event()
        self.ended: dict[str, str] = {}
        self.most_failures = len(jobs)

    def run(self) -> list[str]:
        """Return the names of the jobs that never began."""
        pool = JobPool([*self.jobs], self.at_once, self.stop)
        for ended in pool.results():
            if ended:
                job, outcome = ended
                self.ended[job.board.name] = outcome.state
            failed = sum(state == "refused" for state in self.ended.values())
            pool.open = pool.open and failed <= self.most_failures
        return [job.board.name for job in pool.waiting]


@pytest.mark.slow
def test_as_many_run_at_once_as_allowed_and_no_more() -> None:
    barrier = threading.Barrier(3)  # opens for three that are there together
    phase = Phase(*(FakeJob(str(n), gate=barrier) for n in range(6)), at_once=3)
    assert phase.run() == [] and len(phase.ended) == 6
    barrier = threading.Barrier(3)
    stuck = Phase(*(FakeJob(str(n), gate=barrier) for n in range(3)), at_once=2)
    threading.Timer(0.3, barrier.abort).start()
    with pytest.raises(threading.BrokenBarrierError):
        stuck.run()


@pytest.mark.slow
def test_a_board_that_is_away_frees_its_place_and_comes_again() -> None:
    later = time.monotonic() + 0.3
    phase = Phase(FakeJob("away", [None, None, outcome()], later), FakeJob("b"), FakeJob("c"), at_once=1)
    assert phase.run() == []
    assert list(phase.ended) == ["b", "c", "away"]


def test_after_too_many_failures_none_begins() -> None:
    phase = Phase(*(FakeJob(str(n), [outcome("refused")]) for n in range(5)), at_once=1)
    phase.most_failures = 1
    assert phase.run() == ["2", "3", "4"]
    assert phase.ended == {"0": "refused", "1": "refused"}


@pytest.mark.slow
def test_a_stop_ends_what_waits_and_lets_the_others_end() -> None:
    phase = Phase(FakeJob("away", [None], time.monotonic() + 3600), FakeJob("b"), FakeJob("c"), at_once=1)

    def stop_then() -> None:
        until(lambda: {"b", "c"} <= phase.ended.keys())
        phase.stop.set()

    threading.Thread(target=stop_then, daemon=True).start()
    assert phase.run() == []
    assert phase.ended == {"b": "installed", "c": "installed", "away": "offline"}


def test_a_bug_in_a_job_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        Phase(FakeJob("a", [ZeroDivisionError()])).run()
