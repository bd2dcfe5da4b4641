"""What a run would do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.tuning.runs import CONV, DENSE
from tests.records.samples import PROVENANCE, put
from toolchain.boards.inventory.lookup import find_board
from toolchain.errors import UsageError
from toolchain.records.store import RecordStore
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import record_key
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.plan import RunPlan, plan

BACKEND: Any = SimpleNamespace(
    runner="boards",
    runners={"some-model": SimpleNamespace(trial_s=0.6), "by-hand": SimpleNamespace(trial_s=None)},
)


def network(sizes: dict[str, int | None]) -> Any:
    return SimpleNamespace(
        tasks=[CONV, DENSE],
        space=lambda task: SimpleNamespace(size=sizes[task.id]),
        tuner="random",
        tuners={},
    )


def planned(store: RecordStore, conv: int | None, dense: int | None, **options: Any) -> RunPlan:
    board = find_board("local")
    how = TuneOptions(timeout_s=10.0, **options)
    lowered = network({CONV.id: conv, DENSE.id: dense})
    return plan(lowered, BACKEND, target_for(board.profile), [board], store, how)


def test_there_are_no_more_trials_than_candidates(store: RecordStore) -> None:
    assert planned(store, 6, 4, trials=100).trials == 5 + 3  # the defaults are no trials
    assert planned(store, None, 4, trials=100).trials == 100
    assert planned(store, 6, 4, trials=3).trials == 3
    assert planned(store, 6, 4, trials=100, tasks=(DENSE.id,)).trials == 3


def test_what_was_measured_is_left_out_unless_the_run_is_fresh(store: RecordStore) -> None:
    board = find_board("local")
    key = record_key(CONV.workload, target_for(board.profile), board.record_class)
    for number in range(3):
        trial = replace(PROVENANCE, trial=number - 1 if number else None)
        put(store, 1.0, key, digest=str(number), provenance=trial)
    found = planned(store, 6, 4, trials=100)
    assert [each.measured for each in found.tasks] == [3, 0]
    assert found.trials == 3 + 3
    assert planned(store, 6, 4, trials=100, fresh=True).trials == 5 + 3


def test_the_time_is_that_of_the_trials_or_the_limit(store: RecordStore) -> None:
    assert planned(store, None, None, trials=7).seconds == 70.0
    assert planned(store, None, None, trials=7, time_s=30.0).seconds == 30.0


def test_what_asks_no_board_takes_the_time_it_says(store: RecordStore) -> None:
    found = planned(store, None, None, trials=10, runner="some-model")
    assert found.seconds == 6.0 and not found.pace.most and found.where == "by some-model, for local"
    assert found.to_json()["runner"] == "some-model"
    other = planned(store, None, None, trials=10, runner="by-hand")
    assert other.pace.most and other.where == "by by-hand, for local"


def test_the_document_says_what_the_time_is_taken_from(store: RecordStore) -> None:
    document = planned(store, None, 4, trials=7).to_json()
    assert (document["trials"], document["boards"], document["estimated_s"]) == (7, ["local"], 70.0)
    assert document["at_most"] is True and "is given 10 s" in str(document["estimated_from"])
    assert isinstance(document["tasks"], list)
    assert [task["size"] for task in document["tasks"]] == [None, 4]


def test_an_unknown_task_is_refused(store: RecordStore) -> None:
    with pytest.raises(UsageError, match="--tasks nosuch"):
        planned(store, 6, 4, tasks=("nosuch",))
