"""Points bred from pairs."""

from __future__ import annotations

from tests.tuning.tuners.grid import TASK, Grid, measured
from tests.tuning.tuners.test_table import searched
from toolchain.tuning.tuners.table import Genetic


def test_later_points_are_better_than_the_first() -> None:
    space = Grid(20, 400)
    found = searched(Genetic(TASK, space, 1), 160)
    times = [measured(cell).mean_ms for cell in found]
    assert sorted(times[-40:])[20] < 0.5 * sorted(times[:16])[8]


def test_children_take_decisions_of_their_parents() -> None:
    """All learned tiles have one order: but for mutations and chance, so have the children."""
    space = Grid(12, 144)
    tuner = Genetic(TASK, space, 1)
    tuner.learn([(cell, measured(cell)) for cell in space.points if cell.order == "rows" and cell.tile < 5])
    orders = [cell.order for cell in tuner.propose(40)]
    assert orders.count("rows") > 25
