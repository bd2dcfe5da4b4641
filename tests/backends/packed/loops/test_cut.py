"""Axes are cut into parts that cover them, about equal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.backends.packed.loops.nest import shares, tiles

CUTS = st.tuples(st.integers(1, 300), st.integers(1, 40))


@pytest.mark.parametrize("cut", [shares, tiles])
@given(CUTS)
def test_parts_cover_an_axis_once(cut: object, drawn: tuple[int, int]) -> None:
    extent, size = drawn
    end = 0
    for start, many, each in cut(extent, size):
        assert start == end and many > 0 and 0 < each <= size
        end += many * each
    assert end == extent


@given(CUTS)
def test_shares_are_as_few_as_can_be_and_about_equal(drawn: tuple[int, int]) -> None:
    extent, size = drawn
    parts = shares(extent, size)
    assert sum(many for _start, many, _size in parts) == -(-extent // size)
    sizes = [each for _start, _many, each in parts]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 20), st.integers(1, 14), st.integers(1, 3))
def test_shares_of_whole_rows(rows: int, width: int, most: int) -> None:
    parts = shares(rows * width, most * width, width)
    assert all(start % width == size % width == 0 for start, _many, size in parts)
    assert sum(many * size for _start, many, size in parts) == rows * width
