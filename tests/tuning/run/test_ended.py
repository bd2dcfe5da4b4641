"""A search that ends before it has used its trials says why."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from edge_toy.backend import POINTS

from tests.tuning.toy_run import Told, search, toy_run
from toolchain.records.store import RecordStore
from toolchain.tuning.allowance import Allowance
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.tune import why_ended_early

UP = Allowance(time.monotonic() - 1, firm=True)
EXHAUSTED, OPEN = SimpleNamespace(trials=4, exhausted=True), SimpleNamespace(trials=5, exhausted=False)


@pytest.mark.parametrize(
    ("runs", "options", "allowed", "says"),
    [
        ([EXHAUSTED, OPEN], TuneOptions(trials=9), None, ""),
        (
            [EXHAUSTED, EXHAUSTED],
            TuneOptions(trials=9),
            None,
            "every way to compute these tasks has been measured",
        ),
        ([EXHAUSTED, OPEN], TuneOptions(trials=10), UP, "--time is for comparing the fastest again"),
        (
            [EXHAUSTED, OPEN],
            TuneOptions(trials=10, early_stopping=3),
            None,
            "in its last 3 (--early-stopping)",
        ),
        ([EXHAUSTED, OPEN], TuneOptions(trials=10), None, "no tuner has anything left to try"),
    ],
)
def test_the_reason(runs: list[Any], options: TuneOptions, allowed: Allowance | None, says: str) -> None:
    said = why_ended_early(runs, options, allowed)
    assert says in said and bool(said) == bool(says)
    used = sum(run.trials for run in runs)
    assert not said or said.startswith(f"the search ended after {used} of {options.trials} trials: ")


def test_a_task_is_exhausted_when_all_its_ways_are_measured(store: RecordStore) -> None:
    with toy_run(store, Told({})) as run:
        search(run, len(POINTS) - 2)
        assert not run.exhausted
        search(run, 5)
        assert run.exhausted and run.trials == len(POINTS) - 1


def test_of_two_runs_into_one_store_each_leaves_out_what_the_other_measured(store: RecordStore) -> None:
    with toy_run(store, Told({})) as one, toy_run(store, Told({})) as other:
        under_way = one.propose(4)
        search(other, 8)
        one.record(under_way, one.measure(under_way))
        search(one, len(POINTS))
        assert search(other, len(POINTS)) == search(one, len(POINTS)) == 0
        trials = [record for record in store.all() if record.provenance.trial is not None]
        twice = len(trials) - len({record.digest for record in trials})
        assert twice == 4, "only what both had under way at the same time"
        assert one.exhausted and other.exhausted
