"""Finds where the expression of a stage changes: at padded borders and between concatenated tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tvm import tirx
from tvm.sym import Analyzer

from toolchain.backends.packed.recognise.expressions import bind, calls
from toolchain.backends.packed.recognise.read import Expr
from toolchain.backends.packed.stages.value import StageValue

# Start and end on each axis (block, *spatial) of a packed value.
Box: TypeAlias = "Sequence[tuple[int, int]]"

_BORDER = 3  # widest padding that is looked for


def conditions(value: StageValue, box: Box, lanes: int) -> int:
    """Count the conditions that remain in a value for a box of its packed output."""
    analyzer = Analyzer()

    def free(start: int, end: int) -> Expr:
        if end - start == 1:
            return tirx.IntImm("int32", start)
        return bind(analyzer, tirx.Var("i", "int32"), end - start) + start

    block, *spatial = (free(start, end) for start, end in box)
    lane = bind(analyzer, tirx.Var("lane", "int32"), lanes)
    index = [tirx.IntImm("int32", 0), block * lanes + lane, *spatial]
    steps = [free(0, extent) for extent in value.reduced]
    return sum(calls(each, "if_then_else") for each in value.values(index, steps, analyzer))


def interior(value: StageValue, box: Box, lanes: int) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Return the rows (for each spatial axis but the last) and the columns that read no padding."""
    if not conditions(value, box, lanes):
        return list(box[1:-1]), box[-1]
    # the conditions of one axis are seen where the other axes have no border
    middle = [(_edge(end), end - _edge(end)) for _start, end in box[1:]]
    found = []
    for axis in range(1, len(box)):
        around = [box[0], *middle]
        around[axis] = box[axis]
        found.append(_inner(value, around, axis, lanes))
    return found[:-1], found[-1]


def _edge(extent: int) -> int:
    return min(_BORDER, (extent - 1) // 2)


def _inner(value: StageValue, box: Box, axis: int, lanes: int) -> tuple[int, int]:
    """Return the largest range of an axis with the fewest conditions."""
    start, end = box[axis]
    found = (conditions(value, box, lanes), 0, start, end)
    for before in range(_BORDER + 1):
        for after in range(_BORDER + 1):
            if found[0] and before + after and end - after > before:
                smaller = [*box[:axis], (before, end - after), *box[axis + 1 :]]
                found = min(found, (conditions(value, smaller, lanes), before + after, before, end - after))
    return found[2:]


def segments(value: StageValue, box: Box, lanes: int) -> list[tuple[int, int]]:
    """Return the ranges of blocks between the starts of a concatenation's operands."""
    (_start, blocks), *rest = box
    whole = [(0, blocks)]
    total = conditions(value, box, lanes)
    if not total or blocks == 1:
        return whole
    each = [conditions(value, [(block, block + 1), *rest], lanes) for block in range(blocks)]
    if min(each) == total:
        return whole
    ends = [
        block
        for block in range(1, blocks)
        if conditions(value, [(block - 1, block + 1), *rest], lanes) > min(each[block - 1], each[block])
    ]
    return list(zip([0, *ends], [*ends, blocks], strict=True))
