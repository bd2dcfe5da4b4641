"""Checks whether all stages of a function share their rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import tirx
from tvm.sym import Analyzer

from toolchain.backends.packed.loops.memory import CALL, SMALL
from toolchain.backends.packed.recognise.expressions import calls, inlined, substitute
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, shape_of

_JOBS = 8  # fewest rows that are enough work for the cores of today's boards
_HELD = 1 << 16  # most numbers of a row that are kept: they fit L2


def rows_of(read: Read, kept: Sequence[Stage], fewest: int | None = None) -> int:
    """Return how many first axes of the output all stored stages share; 0 if none, or with too few rows.

    Parameters
    ----------
    fewest
        Rows that are enough; None: as many as a CPU's cores need, if the work is worth several cores.
    """
    if len(kept) < 2 or not any(stage.init is not None for stage in kept):
        return 0
    shape = shape_of(read.output)
    for count in range(len(shape), 0, -1):
        if all(_alike(read, kept, stage, shape[:count]) for stage in kept):
            enough = prod(shape[:count]) >= (_JOBS if fewest is None else fewest)
            return count if enough or cost(kept) < SMALL else 0
    return 0


def _alike(read: Read, kept: Sequence[Stage], stage: Stage, rows: tuple[int, ...]) -> bool:
    """Return whether a stage has a row for each row of the output, and reads nothing of other rows."""
    shape, count = shape_of(stage.buffer), len(rows)
    if len(stage.parts) > 1 or shape[:count] != rows:
        return False
    if read.place(stage.buffer) is None and prod(shape[count:]) > _HELD:
        return False
    if stage.init is not None and prod(shape[count:]) > 1:
        return False
    stored = [each.buffer for each in kept]
    alike = True

    def leaf(source: tirx.Buffer, index: list[Expr]) -> Expr | None:
        nonlocal alike
        if any(source.same_as(each) for each in stored):
            own = zip(index, stage.indices, rows, strict=False)
            alike &= all(extent == 1 or one.same_as(other) for one, other, extent in own)
        elif read.place(source) is None:
            return None
        return tirx.BufferLoad(source, index)

    substitute(stage.value, [], inlined(read, leaf, Analyzer()))
    return alike


def cost(kept: Sequence[Stage]) -> int:
    """Return the approximate number of operations of the stages."""
    return sum(prod(stage.extents) * (1 + CALL * calls(stage.value)) for stage in kept)
