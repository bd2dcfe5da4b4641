"""The zeros around a packed value, which its producer writes."""

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
    """Write the zeros beside one row of a packed value, and beyond the first and the last row.

    Parameters
    ----------
    spatial
        Logical extents.
    row
        Place on all spatial axes but the last.
    """
    full = layout.shape((1, 1, *spatial))[2:-1]
    for axis, size in enumerate(spatial):
        for start, count, edge in (
            (0, layout.before[axis], [0] * len(spatial)),
            (layout.before[axis] + size, layout.after[axis], [each - 1 for each in spatial]),
        ):
            if count:
                ends = [tirx.EQ(row[k], edge[k]) for k in range(axis, len(row))]
                fixed = [row[k] + layout.before[k] for k in range(axis)]
                with (
                    nest.when(tirx.all(*ends) if ends else None),
                    nest.grid([count, *full[axis + 1 :]]) as at,
                    nest.vector(layout.lanes) as lane,
                ):
                    zero = tirx.const(0, str(buffer.dtype))
                    ir.buffer_store(
                        buffer, zero, [n, block + layout.offset, *fixed, at[0] + start, *at[1:], lane]
                    )
