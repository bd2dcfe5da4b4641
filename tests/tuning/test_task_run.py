"""What one task's run takes over from earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from edge_toy.backend import POINTS, ToySpace

from tests.tuning.toy_run import KEY, TASK, Told, search, toy_run
from toolchain.errors import ToolchainError
from toolchain.records.store import RecordStore
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.tuning.judging.confirm import choice_of, confirm
from toolchain.tuning.run.conclude import finalists
from toolchain.tuning.run.pipeline import check_first_round
from toolchain.tuning.task_run import TaskRun
from toolchain.tuning.tuners.table import GridSearch


def test_what_a_search_learns_was_all_measured_in_one_way(store: RecordStore) -> None:
    """The time that a choice took in the network stands in the store, and is told to no tuner."""
    fastest = POINTS[3]
    with toy_run(store, Told({fastest: 0.1})) as run:
        search(run, len(POINTS))
        standing = finalists(run)
        confirmed = confirm(run.task, standing, run.context.evaluator.runner)
        assert confirmed
        in_network = replace(confirmed.choice, run_ms=(9.0, 9.0))
        run.settle(standing, replace(confirmed, choice=in_network))
    with toy_run(store, Told({})) as run:
        assert run.known[run.space.entry(fastest).digest].best_ms == 0.1
        assert run.left == 0


def test_a_run_that_has_not_begun_has_touched_nothing() -> None:
    """Neither builder, runner, cases nor the store are asked before `begin`."""
    untouched: Any = SimpleNamespace(key_of=lambda _workload: KEY, store=None)
    TaskRun(TASK, ToySpace(TASK), GridSearch(TASK, ToySpace(TASK), 1), untouched)


def test_a_search_continues_where_an_earlier_one_ended(store: RecordStore) -> None:
    with toy_run(store, Told({})) as run:
        assert run.left == len(POINTS) - 1
        assert search(run, 5) == 5
    with toy_run(store, Told({})) as run:
        assert run.left == len(POINTS) - 6
        assert search(run, len(POINTS)) == len(POINTS) - 6
    with toy_run(store, Told({}), fresh=True) as run:
        assert run.left == len(POINTS) - 1


def test_what_a_build_takes_by_other_records_is_measured_first_and_is_no_trial(store: RecordStore) -> None:
    fastest = POINTS[3]
    with toy_run(store, Told({fastest: 0.1}), recorded=fastest) as run:
        assert (run.trials, run.best_ms, run.left) == (0, 0.1, len(POINTS) - 2)
        standing = finalists(run)
        confirmed = confirm(run.task, standing, run.context.evaluator.runner)
        assert confirmed
        tuned = run.settle(standing, confirmed)
    assert tuned.won == run.space.rule(fastest), "not lost to a default, which alone was measured here"
    with toy_run(store, Told({}), recorded=fastest) as run:
        assert run.known[run.space.entry(fastest).digest].best_ms == 0.1, "and not measured again"


def test_a_search_that_was_cut_short_keeps_it_too(store: RecordStore) -> None:
    fastest = POINTS[3]
    with toy_run(store, Told({fastest: 0.1}), recorded=fastest) as run:
        assert run.unsettled().won == run.space.rule(fastest)


def test_trials_beside_other_processes_are_counted(store: RecordStore) -> None:
    class Shared(Told):
        def _run(self, code: object, cases: object) -> Result:
            others = int(getattr(code, "tiles", None) in POINTS[1:3])
            known = f'{{"clock_mhz": 1980.0, "temperature_c": null, "others": {others}}}'
            return replace(super()._run(code, cases), conditions=known)

    with toy_run(store, Shared({})) as run:
        search(run, len(POINTS))
        assert run.beside_others == 2


def test_where_it_fails_the_default_stays(store: RecordStore) -> None:
    wrong = POINTS[3]
    with toy_run(store, Told({wrong: 0.1}, frozenset({wrong})), recorded=wrong) as run:
        assert run.best_ms == 1.0
        assert [finalist.point for finalist in finalists(run)] == [run.space.default()]


def test_a_batch_that_is_cut_short_is_known_so_far(store: RecordStore) -> None:
    with toy_run(store, Told({})) as run:
        proposals = run.propose(8)
        asked = iter([False, False, True])
        measured = run.measure(proposals, lambda: next(asked))
        assert [built.candidate for built, _result in measured] == [each.candidate for each in proposals[:4]]
        run.record(proposals[: len(measured)], measured)
    with toy_run(store, Told({})) as run:
        assert run.left == len(POINTS) - 1 - 4


def test_what_is_confirmed_says_what_measured_it_now(store: RecordStore) -> None:
    """The winner is of an earlier run by other versions; its times of now are not."""
    fastest = POINTS[3]
    with toy_run(store, Told({fastest: 0.1})) as run:
        search(run, len(POINTS))
    with toy_run(store, Told({fastest: 0.1})) as run:
        now = replace(run.context.provenance, run="later", runtime="new", tvm="newer", tool="newest")
        run.context = replace(run.context, provenance=now)
        standing = finalists(run)
        confirmed = confirm(run.task, standing, run.context.evaluator.runner)
        assert confirmed and confirmed.choice.provenance.tvm == "tvm"
        choice = run.settle(standing, confirmed).choice
    assert choice.confirmed and choice.digest == run.space.entry(fastest).digest
    assert choice.provenance == replace(now, trial=None, excluded=run.space.excluded)
    assert choice in store.all()


def test_where_the_board_goes_away_meanwhile_nothing_is_stored(store: RecordStore) -> None:
    """A default that alone was measured here would take the place of what builds use today."""

    class Leaving(Told):
        asked = 0

        def check(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
            self.asked += 1
            away = [Result(failure="upload", message="gone")]
            return super().check(task, built) if self.asked == 1 else away

    begun = toy_run(store, Leaving({}), recorded=POINTS[3])
    with pytest.raises(ToolchainError, match="what builds use today could not be measured") as caught, begun:
        pass
    assert "when the board can be reached" in (caught.value.hint or "")
    assert store.best(KEY, ("toy",)) is None


def test_times_that_were_not_compared_are_of_one_kind(store: RecordStore) -> None:
    """The choice's own time is one in the network, where everything takes longer."""
    fastest = POINTS[3]
    with toy_run(store, Told({fastest: 0.1})) as run:
        search(run, len(POINTS))
        (best,) = [each for each in run.measured if each.point == fastest]
        store.add(choice_of(best.record, (2.0, 2.1)))
    with toy_run(store, Told({})) as run:
        tuned = run.unsettled()
    assert tuned.won == run.space.rule(fastest)
    assert (tuned.default_ms, tuned.best_ms) == (1.0, 0.1)


def test_what_was_no_trial_is_no_failed_trial(store: RecordStore) -> None:
    wrong = POINTS[3]
    with toy_run(store, Told({wrong: 0.1}, frozenset({wrong})), recorded=wrong) as run:
        assert (run.trials, run.failures.total()) == (0, 0)
        search(run, 1)
        check_first_round([run])
