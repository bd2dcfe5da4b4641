"""Searches by boosted trees."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from random import Random
from typing import Any

import pytest

from tests.tuning.tuners.grid import TASK, Cell, Endless, Grid, measured
from tests.tuning.tuners.test_table import searched
from toolchain.tasks.tuner import Result
from toolchain.tuning.tuners import xgb
from toolchain.tuning.tuners.table import TUNERS

pytestmark = pytest.mark.slow

NAMES = ("xgb", "xgb-rank", "xgb-knob")
FITS = 40  # of tiles up to 12x12: larger ones fail


def hit(name: str, space: Grid, seed: int) -> int:
    """Return the number of the trial that is within 5 % of the best."""
    times = [time.mean_ms for cell in space.points if not (time := measured(cell, FITS)).failure]
    tuner, trials = TUNERS[name](TASK, space, seed), 0
    while points := tuner.propose(8):
        results = [measured(cell, FITS) for cell in points]
        tuner.learn(list(zip(points, results, strict=True)))
        trials += len(points)
        if any(not each.failure and each.mean_ms <= 1.05 * min(times) for each in results):
            break
    return trials


@pytest.mark.parametrize("name", NAMES)
def test_the_best_is_there_sooner_than_by_chance(name: str) -> None:
    space = Grid(12, 144)
    own = sum(hit(name, space, seed) for seed in range(1, 4))
    assert own < 0.7 * sum(hit("random", space, seed) for seed in range(1, 4))


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_search_begins_with_what_the_model_promises(name: str) -> None:
    """Nothing that was measured, few tiles that cannot fit, and better ones than those it learned from."""
    space = Grid(12, 144)
    earlier = searched(TUNERS["random"](TASK, space, 1), 48, FITS)
    resumed = TUNERS[name](TASK, space, 2)
    resumed.learn([(cell, measured(cell, FITS)) for cell in [space.default(), *earlier]])
    first = resumed.propose(16)
    assert not {space.default(), *earlier} & set(first)
    assert sum(cell.tile * cell.other > 1.5 * FITS for cell in first) <= 4
    ran = sorted(measured(cell).mean_ms for cell in earlier if cell.tile * cell.other <= FITS)
    assert sum(measured(cell).mean_ms < ran[len(ran) // 2] for cell in first) >= 12


class Sizes(Grid):
    """Two sizes and nothing else, in any order."""

    def __init__(self, tiles: int) -> None:
        super().__init__(tiles, tiles * tiles)
        cells = [cell for cell in self.points if cell.order == "rows" and not cell.unrolled]
        self.points = Random(1).sample(cells, len(cells))

    def decisions(self, point: Cell) -> Mapping[str, Any]:
        return {"tile": point.tile, "other": point.other}


def test_sizes_that_got_better_go_on_getting_better() -> None:
    """Small ones were measured: what is proposed is larger than any, as a trend says; trees cannot."""
    space = Sizes(12)
    small = [cell for cell in space.points if max(cell.tile, cell.other) <= 4]
    tuner = TUNERS["xgb-knob"](TASK, space, 1)
    tuner.learn([(cell, measured(cell)) for cell in small])
    proposed = tuner.propose(8)
    assert sum(cell.tile * cell.other > 64 for cell in proposed) >= 6, proposed


def test_the_order_of_a_space_of_sizes_is_believed_as_far_as_it_holds() -> None:
    space = Sizes(12)
    tuner = TUNERS["xgb-knob"](TASK, space, 1)
    learned = space.points[3::5]
    tuner.learn([(cell, Result((1.0 + space.index(cell),))) for cell in learned])
    assert sum(space.index(cell) < 36 for cell in tuner.propose(8)) >= 6, "of 144"


def test_candidates_that_all_fail_stop_nothing() -> None:
    tuner = TUNERS["xgb"](TASK, Grid(), 1)
    for _ in range(3):
        points = tuner.propose(4)
        assert len(points) == 4
        tuner.learn([(point, Result(failure="build")) for point in points])


@pytest.mark.parametrize("endless", [False, True])
def test_large_spaces_are_annealed(endless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xgb, "_WHOLE", 10)
    space = Endless(12, 144) if endless else Grid(12, 144)
    found = searched(TUNERS["xgb"](TASK, space, 1), 48, FITS)
    tiles = [cell.tile * cell.other for cell in found]
    near = [sum(FITS / 2 < each <= FITS for each in half) for half in (tiles[:16], tiles[-16:])]
    assert near[1] > near[0]


def test_an_artificial_space_is_searched_without_tvm() -> None:
    code = """
import sys
from tests.tuning.tuners.grid import TASK, Grid, measured
from toolchain.tuning.tuners.table import TUNERS
assert "xgboost" not in sys.modules
tuner = TUNERS["xgb"](TASK, Grid(), 1)
for _ in range(3):
    tuner.learn([(point, measured(point)) for point in tuner.propose(8)])
print(sorted({"tvm", "tvm_ffi", "xgboost"} & set(sys.modules)))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.stdout.strip() == "['xgboost']", ran.stderr


def test_names_of_decisions_are_all_that_knobs_need() -> None:
    """`xgb-knob` never asks for features."""

    class Blind(Grid):
        def features(self, point: object) -> list[float]:
            raise AssertionError(point)

    space = Blind(3, 9)
    assert set(searched(TUNERS["xgb-knob"](TASK, space, 1), 100)) == set(space.points)
    assert {(cell.tile, cell.other) for cell in space.points} == set(product(range(1, 4), repeat=2))
