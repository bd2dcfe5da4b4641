"""Points in the space's order."""

from __future__ import annotations

from tests.tuning.tuners.grid import TASK, Grid, measured
from toolchain.tuning.tuners.table import GridSearch


def test_gridsearch_keeps_the_order() -> None:
    space = Grid()
    tuner = GridSearch(TASK, space, 1)
    tuner.learn([(space.points[1], measured(space.points[1]))])
    assert tuner.propose(2) + tuner.propose(2) == [space.points[0], *space.points[2:5]]
