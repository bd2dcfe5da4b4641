"""Emits the zeros around a packed value, which its producer writes."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.read import Expr


def zero_halo(
    nest: Nest,
    buffer: tirx.Buffer,
    layout: Layout,
    spatial: Sequence[int],
    n: Expr,
    block: Expr,
    row: Sequence[Expr],
) -> None:
    """Emit the zeros beside one row of a packed value, and beyond the first and the last row.

    Parameters
    ----------
    spatial
        Logical extents of the spatial axes.
    row
        Position on all spatial axes but the last.
    """
    full = layout.shape((1, 1, *spatial))[2:-1]
    for axis in range(len(spatial)):
        for start, count, edge in _sides(layout, spatial, axis):
            if count:
                ends = [tirx.EQ(row[k], edge[k]) for k in range(axis, len(row))]
                fixed = [row[k] + layout.before[k] for k in range(axis)]
                with (
                    nest.when(tirx.all(*ends) if ends else None),
                    nest.grid([count, *full[axis + 1 :]]) as at,
                    nest.vector(layout.lanes) as lane,
                ):
                    fill = tirx.const(layout.fill, str(buffer.dtype))
                    ir.buffer_store(
                        buffer, fill, [n, block + layout.offset, *fixed, at[0] + start, *at[1:], lane]
                    )


def zero_halo_of_tile(
    nest: Nest,
    buffer: tirx.Buffer,
    layout: Layout,
    spatial: Sequence[int],
    n: Expr,
    block: Expr,
    row: Sequence[Expr],
    first: Expr,
    columns: int,
) -> None:
    """Emit a tile's share of the zeros of `zero_halo`: beside it, and beyond the first and the last row.

    Parameters
    ----------
    first, columns
        The tile's first column in the row, and its number of columns; some may be beyond the row.
    """
    fill, width, last = tirx.const(layout.fill, str(buffer.dtype)), spatial[-1], len(spatial) - 1
    left, right = layout.before[-1], layout.after[-1]
    full = layout.shape((1, 1, *spatial))[2:-1]
    parts = [
        (tirx.EQ(first, 0), left, tirx.IntImm("int32", 0)),
        (first + columns >= width, right, tirx.IntImm("int32", width + left)),
    ]

    def write(lines: Sequence[Expr], column: Expr) -> None:
        with nest.vector(layout.lanes) as lane:
            ir.buffer_store(buffer, fill, [n, block + layout.offset, *lines, column, lane])

    def beside(lines: Sequence[Expr]) -> None:
        for condition, count, start in parts:
            with nest.where(condition) as there:
                if there and count:
                    with nest.grid([count]) as (column,):
                        write(lines, start + column)

    beside([place + before for place, before in zip(row, layout.before, strict=False)])
    for axis in range(last):
        fixed = [row[k] + layout.before[k] for k in range(axis)]
        for start, count, edge in _sides(layout, spatial, axis):
            if not count:
                continue
            with (
                nest.when(tirx.all(*(tirx.EQ(row[k], edge[k]) for k in range(axis, last)))),
                nest.grid([count, *full[axis + 1 : -1]]) as at,
            ):
                lines = [*fixed, at[0] + start, *at[1:]]
                with nest.grid([columns]) as (column,), nest.where(first + column < width) as there:
                    if there:
                        write(lines, first + column + left)
                beside(lines)


def _sides(layout: Layout, spatial: Sequence[int], axis: int) -> list[tuple[int, int, list[int]]]:
    """Return the zeros before and after an axis: start, count, place of the nearest value."""
    return [
        (0, layout.before[axis], [0] * len(spatial)),
        (layout.before[axis] + spatial[axis], layout.after[axis], [each - 1 for each in spatial]),
    ]
