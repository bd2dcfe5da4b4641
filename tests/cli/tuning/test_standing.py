"""How far a run is."""

from __future__ import annotations

from tests.cli.tuning.runs import CONV, DENSE, batch, begun
from toolchain.cli.tuning.text import Standing
from toolchain.tuning.events import Began, Event, Trial, TurnBegan


def after(*events: Event) -> Standing:
    standing = Standing()
    for event in events:
        standing.take(event)
    return standing


def test_the_networks_time_is_known_once_every_default_is() -> None:
    assert after(*begun()[:3]).estimated_ms is None
    assert after(*begun()).estimated_ms == 7.0


def test_a_run_without_tasks_has_no_time() -> None:
    assert after(Began((), 5)).estimated_ms is None


def test_what_a_batch_brought_is_counted_by_weight() -> None:
    standing = after(*begun(), *batch())
    assert (standing.estimated_ms, standing.untuned_ms) == (4.0, 7.0)
    row = standing.row(CONV)
    assert (row.trials, row.failed, row.best_ms, row.gflops) == (3, 1, 1.0, 8.0)
    assert (standing.trials, standing.limit, standing.step) == (3, 20, "searching")


def test_the_tasks_whose_turn_it_is_are_named() -> None:
    standing = after(*begun(), *batch(), TurnBegan(DENSE, 2), TurnBegan(DENSE, 2))
    assert standing.at_work == [DENSE.id]
    assert after(*begun(), *batch()).at_work == []


def test_a_default_is_no_trial() -> None:
    assert after(*begun()).trials == 0
    standing = after(Began((CONV,), 1), Trial(CONV, "default", 2.0, 2.0))
    assert standing.row(CONV).gflops == 4.0
