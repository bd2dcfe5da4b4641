"""A task in a run: what is wrong becomes no choice, and the next best is taken."""

from __future__ import annotations

import pytest

from tests.toy.backend import POINTS
from tests.tuning.toy_run import KEY, Told, toy_run
from toolchain.errors import ToolchainError
from toolchain.records.store import RecordStore

FASTEST, SECOND = POINTS[3], POINTS[9]
TIMES = {FASTEST: 0.1, SECOND: 0.2}


def test_what_is_wrong_for_some_inputs_is_refused_and_kept(store: RecordStore) -> None:
    with toy_run(store, Told(TIMES, frozenset({FASTEST}))) as run:
        assert run.search(len(POINTS)) == len(POINTS) - 1
        assert run.best_ms == 0.1, "with ordinary numbers nothing is wrong with it"
        finalists = run.finalists()
        assert [finalist.point for finalist in finalists] == [POINTS[0], SECOND]
        tuned = run.confirm(finalists)
    assert tuned.won == run.space.rule(SECOND) and tuned.failed == 1
    failed = [record for record in store.all(KEY) if record.failure]
    assert [(record.failure, record.digest) for record in failed] == [
        ("wrong result", run.space.entry(FASTEST).digest)
    ]
    best = store.best(KEY, ("toy",))
    assert best is not None and best.digest == run.space.entry(SECOND).digest


def test_a_choice_of_an_earlier_run_is_checked_too(store: RecordStore) -> None:
    with toy_run(store, Told(TIMES)) as run:
        run.search(len(POINTS))
        assert run.confirm(run.finalists()).won == run.space.rule(FASTEST)
    with toy_run(store, Told(TIMES, frozenset({FASTEST}))) as run:
        finalists = run.finalists()
        assert [finalist.point for finalist in finalists] == [POINTS[0], SECOND]
        assert run.confirm(finalists).won == run.space.rule(SECOND)


def test_a_default_that_is_wrong_ends_the_run(store: RecordStore) -> None:
    broken = Told({}, frozenset({POINTS[0]}))
    with (
        pytest.raises(ToolchainError, match=r"the default of task c0ffee00 .* wrong result: differs from"),
        toy_run(store, broken),
    ):
        pass
