"""Stripes cover every output block once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.backends.packed.algorithms.direct.space import stripes


@given(st.integers(1, 200), st.integers(1, 6))
def test_every_block_belongs_to_one_group(count: int, blocks: int) -> None:
    covered = [
        block
        for stripe in stripes(count, blocks)
        for block in range(stripe.first, stripe.first + stripe.groups * stripe.blocks)
    ]
    assert covered == list(range(count))


@given(st.integers(2, 200), st.integers(2, 6))
def test_no_tile_has_a_single_block(count: int, blocks: int) -> None:
    assert all(stripe.blocks > 1 for stripe in stripes(count, blocks))


@pytest.mark.parametrize(
    ("count", "blocks", "widths"),
    [(7, 2, [2, 2, 3]), (13, 2, [2] * 5 + [3]), (7, 4, [4, 3]), (11, 3, [3, 3, 3, 2]), (8, 2, [2] * 4)],
)
def test_how_blocks_are_divided(count: int, blocks: int, widths: list[int]) -> None:
    assert [stripe.blocks for stripe in stripes(count, blocks) for _ in range(stripe.groups)] == widths
