"""Chains that climb a model's guesses."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tests.tuning.tuners.grid import Cell, Grid
from toolchain.tuning.tuners.xgb import anneal


def high(points: Sequence[Cell]) -> list[float]:
    return [-abs(cell.tile - 17) - abs(cell.other - 23) for cell in points]


@pytest.mark.slow
def test_the_top_is_met_in_few_guesses() -> None:
    space, guessed = Grid(40, 1600), list[Cell]()

    def guess(points: Sequence[Cell]) -> list[float]:
        guessed.extend(points)
        return high(points)

    starts = [space.sample(Random(place)) for place in range(16)]
    met = anneal(space, guess, starts, 60, Random(1))
    assert (met[0].tile, met[0].other) == (17, 23)
    assert len(guessed) == len(set(guessed)) == len(met) < len(space.points) / 3
    assert high(met) == sorted(high(met), reverse=True)


def test_without_a_start_nothing_is_met() -> None:
    assert anneal(Grid(), high, [], 4, Random(1)) == []
