"""How rows are shared out among the work items of a GPU."""

from __future__ import annotations

from itertools import product

from toolchain.backends.packed.loops.work_group import WARP, Sharing, sharing_of

UNITS = 132


def test_a_single_row_has_a_whole_group() -> None:
    assert sharing_of(1, 250, UNITS) == Sharing(count=1, items=128, rows=1)
    assert sharing_of(1, 100_000, UNITS).items == 256


def test_short_rows_share_warps() -> None:
    assert sharing_of(12 * 128, 32, UNITS) == Sharing(count=1536, items=16, rows=8)
    assert sharing_of(512, 49, UNITS).groups >= UNITS


def test_rows_that_fill_the_gpu_by_themselves_have_a_warp_each() -> None:
    assert sharing_of(100_000, 192, UNITS) == Sharing(count=100_000, items=32, rows=4)


def test_items_are_whole_warps_and_each_row_is_computed() -> None:
    for count, vectors, together in product((1, 7, 33, 5000), (1, 2, 3, 37, 250, 9000), (True, False)):
        found = sharing_of(count, vectors, UNITS, together=together)
        assert found.items & (found.items - 1) == 0
        assert found.items * found.rows % WARP == 0
        assert (found.groups - 1) * found.rows < count <= found.groups * found.rows
        assert together or found.rows == 1
