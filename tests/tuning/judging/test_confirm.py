"""The default stays unless it is beaten by more than the noise: the rule that judges in the network too."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import fmean
from typing import Any

import pytest
from edge_toy.backend import POINTS

from tests.tuning.toy_run import Told, search, toy_run
from toolchain.records.store import RecordStore
from toolchain.tasks.tuner import Result
from toolchain.tuning.judging.confirm import ROUNDS, confirm
from toolchain.tuning.run.conclude import finalists

STEADY, BETTER = (2.0, 2.1, 2.0), (1.0, 1.05, 1.0)


class Says:
    """Answers each round of a comparison as it was told to."""

    def __init__(self, *rounds: Sequence[Result]) -> None:
        self.rounds = rounds

    def compare(self, *_arguments: object) -> list[list[Result]]:
        return [list(each) for each in self.rounds]


def at(result: Result, number: int) -> Result:
    """Return the result of a round: the times of one after the other."""
    return result if result.failure else Result((result.run_ms[number],) * 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("default", "other", "wins"),
    [
        (Result(STEADY), Result(BETTER), True),
        (Result((2.0, 3.0, 1.0)), Result((1.9, 2.9, 0.9)), False),  # within the noise
        (Result(STEADY), Result(STEADY), False),
        (Result(STEADY), Result(failure="runtime"), False),
        (Result(failure="runtime"), Result(STEADY), True),
    ],
)
def test_the_default_stays_unless_it_is_clearly_beaten(
    default: Result, other: Result, wins: bool, store: RecordStore
) -> None:
    fastest = POINTS[3]
    with toy_run(store, Told({fastest: 0.1})) as run:
        search(run, len(POINTS))
        standing = finalists(run)[:2]
        runner: Any = Says(*[(at(default, number), at(other, number)) for number in range(3)])
        confirmed = confirm(run.task, standing, runner)
        assert confirmed
        chosen = confirmed.choice
    assert chosen.digest == standing[wins].record.digest


def test_where_all_fail_nothing_is_chosen(store: RecordStore) -> None:
    with toy_run(store, Told({POINTS[3]: 0.1})) as run:
        search(run, len(POINTS))
        standing = finalists(run)
        runner: Any = Says([Result(failure="runtime", message="gone")] * len(standing))
        assert confirm(run.task, standing, runner) is None


def test_what_a_session_adds_to_all_of_its_repeats_decides_nothing(store: RecordStore) -> None:
    """Rivals as fast as the default, in sessions that are 2 % apart, seldom win."""
    random = Random(1)

    def session() -> Result:
        level = random.gauss(1, 0.02)
        return Result(tuple(level * random.gauss(1, 0.005) for _ in range(3)))

    wrong, most = 0, 400
    with toy_run(store, Told({})) as run:
        rivals = [run.default] * 4
        for _ in range(most):
            runner: Any = Says(*[[session() for _ in rivals] for _ in range(ROUNDS)])
            confirmed = confirm(run.task, rivals, runner)
            assert confirmed
            wrong += confirmed.default_ms != fmean(confirmed.choice.run_ms)
    assert wrong / most < 0.12, "one in forty for each of three; where repeats counted it was one in three"
