from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from toolchain.backends.packed.pieces import group_of

EXTENTS = st.lists(st.integers(1, 200), min_size=1, max_size=3)


@given(EXTENTS, st.sampled_from([1, 16, 64, 256]))
def test_a_group_fits_the_device_and_no_axis_is_longer_than_needed(extents: list[int], most: int) -> None:
    sizes = group_of(extents, most)
    assert len(sizes) == len(extents) and 1 <= prod(sizes) <= most
    assert all(1 <= size <= extent for size, extent in zip(sizes, extents, strict=True))


@given(EXTENTS)
def test_few_items_are_idle(extents: list[int]) -> None:
    sizes = group_of(extents, 64)
    launched = prod(-(-extent // size) * size for extent, size in zip(extents, sizes, strict=True))
    assert launched < 1.07 * prod(extents)


def test_groups_are_nearly_full_and_widest_along_the_first_axes() -> None:
    assert group_of([8, 56, 16], 64) == [8, 8, 1]
    assert group_of([4, 28, 32], 64) == [4, 14, 1]
    assert group_of([1, 7, 128], 64) == [1, 7, 8]  # all rows of an image share weights
    assert group_of([1000], 64) == [64]
    assert group_of([3], 64) == [3]


def test_a_wanted_group_is_taken_as_far_as_there_are_items() -> None:
    assert group_of([4, 100], 64, (8, 8)) == [4, 8]
    assert group_of([4, 100, 5], 64, (2,)) == [2, 1, 1]
