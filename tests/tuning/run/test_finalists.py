"""What is wrong becomes no choice, and the next best is taken."""

from __future__ import annotations

from typing import Any

import pytest
from edge_toy.backend import POINTS

from tests.tuning.toy_run import KEY, Told, search, toy_run
from toolchain.errors import ToolchainError
from toolchain.records.store import RecordStore
from toolchain.tuning.judging.confirm import ROUNDS, Finalist, confirm
from toolchain.tuning.result import TunedTask
from toolchain.tuning.run.conclude import finalists
from toolchain.tuning.task_run import TaskRun

FASTEST, SECOND = POINTS[3], POINTS[9]
TIMES = {FASTEST: 0.1, SECOND: 0.2}


def chosen(run: TaskRun[Any], standing: list[Finalist[Any]]) -> TunedTask:
    confirmed = confirm(run.task, standing, run.context.evaluator.runner)
    assert confirmed
    return run.settle(standing, confirmed)


def test_what_is_wrong_for_some_inputs_is_refused_and_kept(store: RecordStore) -> None:
    with toy_run(store, Told(TIMES, frozenset({FASTEST}))) as run:
        assert search(run, len(POINTS)) == len(POINTS) - 1
        assert run.best_ms == 0.1, "with ordinary numbers nothing is wrong with it"
        standing = finalists(run)
        assert [finalist.point for finalist in standing][:2] == [POINTS[0], SECOND]
        assert FASTEST not in [finalist.point for finalist in standing]
        tuned = chosen(run, standing)
    assert tuned.won == run.space.rule(SECOND) and tuned.failed == 0, "its trial ran"
    failed = [record for record in store.all(KEY) if record.failure]
    assert [(record.failure, record.digest) for record in failed] == [
        ("wrong result", run.space.entry(FASTEST).digest)
    ]
    best = store.best(KEY, ("toy",))
    assert best is not None and best.digest == run.space.entry(SECOND).digest


def test_a_choice_of_an_earlier_run_is_checked_too(store: RecordStore) -> None:
    with toy_run(store, Told(TIMES)) as run:
        search(run, len(POINTS))
        assert chosen(run, finalists(run)).won == run.space.rule(FASTEST)
    with toy_run(store, Told(TIMES, frozenset({FASTEST}))) as run:
        standing = finalists(run)
        assert [finalist.point for finalist in standing] == [POINTS[0], SECOND]
        assert chosen(run, standing).won == run.space.rule(SECOND)


def test_what_boards_measured_and_a_model_confirms_is_a_models(store: RecordStore) -> None:
    with toy_run(store, Told(TIMES)) as run:
        search(run, len(POINTS))
        assert not chosen(run, finalists(run)).choice.provenance.modelled
    with toy_run(store, Told({FASTEST: 0.05}, modelled=True)) as run:
        tuned = chosen(run, finalists(run))
    assert tuned.won == run.space.rule(FASTEST) and tuned.choice.run_ms == (0.05,) * ROUNDS
    assert tuned.choice.provenance.modelled
    best = store.best(KEY, ("toy",))
    assert best is not None and not best.provenance.modelled and best.run_ms[0] == 0.1, "measured: it decides"


def test_two_of_a_run_stand_and_none_that_is_clearly_slower(store: RecordStore) -> None:
    third = POINTS[7]
    with toy_run(store, Told({**TIMES, third: 0.3}), fresh=True) as run:
        search(run, len(POINTS))
        assert [finalist.point for finalist in finalists(run)] == [POINTS[0], FASTEST, SECOND]
    slower = {point: 2.0 for point in POINTS[1:]}
    with toy_run(store, Told(slower), fresh=True) as run:
        search(run, len(POINTS))
        assert [finalist.point for finalist in finalists(run)] == [POINTS[0]]


def test_a_default_that_is_wrong_ends_the_run(store: RecordStore) -> None:
    broken = Told({}, frozenset({POINTS[0]}))
    with (
        pytest.raises(ToolchainError, match=r"the default of task c0ffee00 .* wrong result: differs from"),
        toy_run(store, broken),
    ):
        pass
