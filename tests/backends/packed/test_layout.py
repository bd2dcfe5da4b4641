"""Values go into a layout and come back whole; around them is the number that the layout says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tvm.sym import Analyzer

from tests.backends.packed.numbers import number
from toolchain.backends.packed.layout import Layout, dense_layout

SHAPES = st.integers(1, 3).flatmap(
    lambda axes: st.tuples(st.integers(1, 2), st.integers(1, 9), *[st.integers(1, 5)] * axes)
)


@given(SHAPES, st.sampled_from([1, 4, 8]), st.integers(0, 2), st.integers(0, 2))
def test_packing_is_undone_by_unpacking(shape: tuple[int, ...], lanes: int, before: int, after: int) -> None:
    axes = len(shape) - 2
    layout = Layout(lanes, (before,) * axes + (after,) * axes)
    value = np.random.default_rng(0).standard_normal(shape)
    packed = layout.pack(value)
    assert packed.shape == layout.shape(shape)
    assert np.array_equal(layout.unpack(packed, shape), value)
    assert np.isclose(packed.sum(), value.sum())
    assert np.count_nonzero(packed) == np.count_nonzero(value)


@given(SHAPES, st.sampled_from([1, 4, 8]), st.integers(0, 2))
def test_an_element_lies_where_the_layout_says(shape: tuple[int, ...], lanes: int, halo: int) -> None:
    layout = Layout(lanes, (halo,) * (2 * (len(shape) - 2)))
    value = np.arange(1, 1 + np.prod(shape)).reshape(shape)
    packed = layout.pack(value)
    for index in np.ndindex(shape):
        at = tuple(number(each) for each in layout.at(index, Analyzer()))
        assert packed[at] == value[index]


def test_a_part_of_a_concatenation_begins_behind_the_others() -> None:
    part = replace(dense_layout(4, 4), offset=2, whole=5)
    assert part.shape((1, 8, 3, 3)) == (1, 5, 3, 3, 4)
    assert [number(each) for each in part.at([0, 5, 1, 2], Analyzer())] == [0, 3, 1, 2, 1]


def test_the_halo_has_the_fill_and_channels_without_a_value_have_zeros() -> None:
    packed = Layout(4, (1, 0, 1, 2), fill=9).pack(np.ones((1, 5, 2, 3), np.uint8))
    assert packed.shape == (1, 2, 4, 5, 4)
    inside = packed[:, :, 1:3, 0:3]
    assert np.array_equal(inside[:, 0], np.ones((1, 2, 3, 4))) and inside[:, 1].sum() == 6
    assert packed.sum() == inside.sum() + 9 * (packed.size - inside.size)
