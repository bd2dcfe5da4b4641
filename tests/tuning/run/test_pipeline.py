"""Batches overlap, none waits for more than it must, and what has begun is kept whatever ends the search."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from tests.waiting import until
from toolchain.errors import ToolchainError
from toolchain.tuning.events import Event, Notice
from toolchain.tuning.run.pipeline import pipeline
from toolchain.tuning.schedulers.scheduler import Prospect, RoundRobin

TIMEOUT_S = 60.0


@dataclass
class Stub:
    """Stands for the run of a task: proposes numbers, and does with them as the test says."""

    trials: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    first_failure: str = ""
    best_ms: float = 1.0
    told: list[Event] = field(default_factory=list)
    task: object = field(default_factory=lambda: SimpleNamespace(id="c0ffee", name="stub"))
    proposed: list[int] = field(default_factory=list)
    learned: list[int] = field(default_factory=list)
    searching: set[int] = field(default_factory=set)

    @property
    def context(self) -> object:
        evaluator = SimpleNamespace(runner=SimpleNamespace(lanes=1))
        return SimpleNamespace(evaluator=evaluator, listener=self.told.append)

    def propose(self, count: int) -> list[int]:
        self.searching.add(threading.get_ident())
        begin = len(self.proposed)
        self.proposed += range(begin, begin + count)
        return self.proposed[begin:]

    def measure(self, proposals: list[int], _over: Callable[[], bool]) -> list[int]:
        return proposals

    def record(self, proposals: list[int], measured: list[int]) -> None:
        assert proposals == measured
        self.trials += len(proposals)

    def learn(self, proposals: list[int], _measured: list[int]) -> None:
        self.searching.add(threading.get_ident())
        self.learned += proposals


def scheduler(trials: int, tasks: int = 1) -> RoundRobin:
    return RoundRobin(trials, [Prospect(1, 1.0, None)] * tasks)


def search(runs: list[Stub], trials: int) -> None:
    with pipeline() as made:
        made.run(runs, scheduler(trials, len(runs)))


def test_every_trial_is_measured_recorded_and_learned_from() -> None:
    runs = [Stub(), Stub()]
    search(runs, 100)
    assert [run.trials for run in runs] == [50, 50]
    assert all(sorted(run.learned) == run.proposed == list(range(50)) for run in runs)
    assert len({thread for run in runs for thread in run.searching}) == 1, "tuners run one at a time"


def test_while_one_batch_is_measured_the_next_is_proposed_and_built() -> None:
    @dataclass
    class Waiting(Stub):
        begun: int = 0

        def measure(self, proposals: list[int], _over: Callable[[], bool]) -> list[int]:
            self.begun += 1
            until(lambda: self.begun >= 2, seconds=TIMEOUT_S)  # the first ends when the second has begun
            return proposals

    run = Waiting()
    search([run], 16)
    assert run.trials == 16


def test_no_more_is_under_way_than_keeps_boards_and_builders_busy() -> None:
    @dataclass
    class Counting(Stub):
        begun: int = 0
        recorded: int = 0
        most: int = 0

        def propose(self, count: int) -> list[int]:
            self.begun += 1
            self.most = max(self.most, self.begun - self.recorded)
            return super().propose(count)

        def measure(self, proposals: list[int], _over: Callable[[], bool]) -> list[int]:
            until(lambda: self.begun >= 3, seconds=TIMEOUT_S)  # the first lasts until the third begins
            return proposals

        def record(self, proposals: list[int], measured: list[int]) -> None:
            self.recorded += 1
            super().record(proposals, measured)

    run = Counting()
    search([run], 80)
    assert run.most == 3


def test_a_batch_that_fails_costs_no_other() -> None:
    @dataclass
    class Failing(Stub):
        first: threading.Event = field(default_factory=threading.Event)

        def measure(self, proposals: list[int], _over: Callable[[], bool]) -> list[int]:
            if proposals[0] == 8:
                assert self.first.wait(TIMEOUT_S)  # the first batch is being measured
                raise ToolchainError("the second batch")
            self.first.set()
            until(lambda: len(self.proposed) >= 16, seconds=TIMEOUT_S)
            return proposals

    run = Failing()
    with pytest.raises(ToolchainError, match="the second batch"):
        search([run], 400)
    assert run.trials >= 8, "what was under way is kept"
    assert len(run.proposed) < 400, "and nothing more was begun"


def test_a_tuner_that_fails_ends_the_search_with_its_error() -> None:
    class Broken(Stub):
        def learn(self, _proposals: list[int], _measured: list[int]) -> None:
            raise ToolchainError("the tuner is broken")

    run = Broken()
    with pytest.raises(ToolchainError, match="the tuner is broken"):
        search([run], 400)
    assert 0 < run.trials < 400


def test_a_search_of_which_nothing_runs_ends_with_the_first_reason() -> None:
    class Hopeless(Stub):
        def record(self, proposals: list[int], measured: list[int]) -> None:
            super().record(proposals, measured)
            self.failures["build"] += len(proposals)
            self.first_failure = "build: no such instruction"

    with pytest.raises(
        ToolchainError, match=r"every candidate .*, 8 in all.* task c0ffee .*: build: no such instr"
    ):
        search([Hopeless()], 400)


def test_an_interrupt_lets_what_has_begun_come_to_its_end() -> None:
    @dataclass
    class Interrupted(Stub):
        first: threading.Lock = field(default_factory=threading.Lock)
        measured: list[int] = field(default_factory=list)

        def measure(self, proposals: list[int], _over: Callable[[], bool]) -> list[int]:
            if self.first.acquire(blocking=False):
                os.kill(os.getpid(), signal.SIGINT)
            assert made[0]._ending.wait(TIMEOUT_S), "it was seen while this is measured"
            self.measured += proposals
            return proposals

    run, made = Interrupted(), []
    with pytest.raises(KeyboardInterrupt), pipeline() as search:
        made.append(search)
        search.run([run], scheduler(400))
    (notice,) = run.told
    assert isinstance(notice, Notice) and "press Ctrl-C again to end at once" in notice.text
    assert run.measured and run.trials == len(run.measured), "nothing else is recorded"
    assert sorted(run.learned) == sorted(run.measured), "the tuner knows of it, too"
    assert len(run.proposed) <= 24


@pytest.mark.slow
def test_another_interrupt_ends_that_as_well() -> None:
    stuck = threading.Event()

    class Stuck(Stub):
        def measure(self, proposals: list[int], _over: Callable[[], bool]) -> list[int]:
            os.kill(os.getpid(), signal.SIGINT)
            made[0]._ending.wait(TIMEOUT_S)
            os.kill(os.getpid(), signal.SIGINT)
            stuck.wait(TIMEOUT_S)  # builders and boards are closed before the pipeline
            return proposals

    run, made = Stuck(), []
    with pytest.raises(KeyboardInterrupt), pipeline() as search:
        made.append(search)
        try:
            search.run([run], scheduler(8))
        finally:
            assert not stuck.is_set()
            stuck.set()
    assert run.trials == 0


def test_when_the_time_is_up_the_rest_of_a_batch_is_not_measured() -> None:
    @dataclass
    class Time:
        """An allowance that a test can end."""

        up: bool = False

    @dataclass
    class Slow(Stub):
        began: int = 0

        def measure(self, proposals: list[int], over: Callable[[], bool]) -> list[int]:
            self.began += 1
            allowed.up = True
            assert over()
            return proposals[:2]

    run, allowed = Slow(), Time()
    with pipeline() as made:
        made.run([run], scheduler(400), allowed)
    assert run.began >= 1 and run.trials == 2 * run.began, "what was measured is kept"
    assert len(run.learned) == run.trials and len(run.proposed) <= 24, "nothing more was begun"
