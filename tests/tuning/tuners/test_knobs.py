"""Decisions as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.tuning.tuners.grid import Cell, Grid
from toolchain.tuning.tuners.xgb import KnobFeatures


def test_numbers_are_themselves_and_names_have_places() -> None:
    knobs = KnobFeatures(Grid())
    assert knobs.features(Cell(2, 3, "rows", True))[:5] == [2.0, 3.0, 1.0, 0.0, 1.0]
    assert knobs.features(Cell(2, 3, "columns", False))[:5] == [2.0, 3.0, 0.0, 1.0, 0.0]


def test_points_of_one_area_have_one_product() -> None:
    """Tiles of 2x4 and 4x2: only the two sizes are multiplied, neither names nor truth values."""
    knobs = KnobFeatures(Grid())
    one, other = (knobs.features(cell)[5:] for cell in (Cell(2, 4, "rows", True), Cell(4, 2, "rows", False)))
    assert one == other == [pytest.approx(3.0)]


def test_numbers_alone_are_told_apart_and_have_a_place() -> None:
    class Sizes(Grid):
        def decisions(self, point: Cell) -> Mapping[str, Any]:
            return {"tile": point.tile, "other": point.other, "order": ("rows", "columns").index(point.order)}

    space = Sizes()
    space.points = [point for point in space.points if point.unrolled]
    knobs = KnobFeatures(space)
    assert knobs.are_numbers and not KnobFeatures(Grid()).are_numbers
    places = [knobs.promising(point)[-1] for point in space.points]
    assert places[:2] == [0.0, 1.0] and places == sorted(set(places))
    assert knobs.promising(space.points[3])[:-1] == knobs.features(space.points[3])


def test_tuples_of_numbers_are_as_many_features() -> None:
    class Tiled(Grid):
        def decisions(self, point: Cell) -> Mapping[str, Any]:
            return {"tile": (point.tile, point.other) if point.unrolled else (), "order": point.order}

    knobs = KnobFeatures(Tiled())
    assert knobs.features(Cell(2, 3, "rows", True)) == [2.0, 3.0, 1.0, 0.0]
    assert knobs.features(Cell(2, 3, "rows", False)) == [0.0, 0.0, 1.0, 0.0]
