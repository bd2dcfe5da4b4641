"""What one task's run takes over from earlier ones."""

from __future__ import annotations

from dataclasses import replace

from tests.toy.backend import POINTS
from tests.tuning.toy_run import Told, search, toy_run
from toolchain.records.store import RecordStore
from toolchain.tuning.confirm import confirm
from toolchain.tuning.finalists import finalists


def test_what_a_search_learns_was_all_measured_in_one_way(store: RecordStore) -> None:
    """The time that a choice took in the network stands in the store, and is told to no tuner."""
    fastest = POINTS[3]
    with toy_run(store, Told({fastest: 0.1})) as run:
        search(run, len(POINTS))
        standing = finalists(run)
        confirmed = confirm(run.task, standing, run.context.bench.runner)
        in_network = replace(confirmed.choice, run_ms=(9.0, 9.0))
        run.settle(standing, replace(confirmed, choice=in_network))
    with toy_run(store, Told({})) as run:
        assert run.known[run.space.entry(fastest).digest].best_ms == 0.1
        assert run.left == 0


def test_a_search_continues_where_an_earlier_one_ended(store: RecordStore) -> None:
    with toy_run(store, Told({})) as run:
        assert run.left == len(POINTS) - 1
        assert search(run, 5) == 5
    with toy_run(store, Told({})) as run:
        assert run.left == len(POINTS) - 6
        assert search(run, len(POINTS)) == len(POINTS) - 6
    with toy_run(store, Told({}), fresh=True) as run:
        assert run.left == len(POINTS) - 1


def test_a_batch_that_is_cut_short_is_known_so_far(store: RecordStore) -> None:
    with toy_run(store, Told({})) as run:
        proposals = run.propose(8)
        asked = iter([False, False, True])
        measured = run.measure(proposals, lambda: next(asked))
        assert [built.candidate for built, _result in measured] == [each.candidate for each in proposals[:4]]
        run.record(proposals[: len(measured)], measured)
    with toy_run(store, Told({})) as run:
        assert run.left == len(POINTS) - 1 - 4
