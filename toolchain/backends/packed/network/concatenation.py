"""Concatenations without a copy: their operands are computed in place."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

from toolchain.backends.packed.recognise.expressions import bind, bindings, inlined, substitute
from toolchain.backends.packed.recognise.read import Expr, Read, UnreadableError, shape_of


def operands(read: Read, lanes: int) -> list[tuple[int, int]] | None:
    """Return the operands of a function that concatenates whole blocks of channels.

    Returns
    -------
    list or None
        For each operand in order: its parameter number and its first block in the output. Only the last
        operand may have a partial block. None if the function does something else.
    """
    shape = shape_of(read.output)
    if len(read.params) < 3 or any(stage.init is not None for stage in read.stages):
        return None
    found: list[tuple[int, int]] = []
    channel = 0
    while channel < shape[1]:
        place = _source(read, shape, channel, 1)
        if place is None:
            return None
        size = shape_of(read.params[place])[1]
        ends = channel + size == shape[1]
        if (size % lanes and not ends) or _source(read, shape, channel, size) != place:
            return None
        found.append((place, channel // lanes))
        channel += size
    return found if len(found) > 1 and channel == shape[1] else None


def _source(read: Read, shape: Sequence[int], start: int, count: int) -> int | None:
    """Return the parameter of which `count` output channels from `start` on copy the first ones in order."""
    analyzer = Analyzer()
    extents = (shape[0], count, *shape[2:])
    n, channel, *spatial = (bind(analyzer, tirx.Var("i", "int32"), size) for size in extents)
    stage = read.producer(read.output)
    if stage is None:
        return None

    def stored(buffer: tirx.Buffer, index: list[Expr]) -> Expr | None:
        return None if read.place(buffer) is None else tirx.BufferLoad(buffer, index)

    try:
        bound = bindings(stage, [n, start + channel, *spatial])
        value = analyzer.simplify(substitute(stage.value, bound, inlined(read, stored, analyzer)))
    except UnreadableError:
        return None
    if not isinstance(value, TensorLoad) or len(value.indices) != len(shape):
        return None
    size = shape_of(value.source)
    if (size[0], *size[2:]) != (shape[0], *shape[2:]) or size[1] < count:
        return None
    if not all(map(_same, value.indices, [n, channel, *spatial], extents)):
        return None
    return read.parameter(value.source)


def _same(one: Expr, other: Expr, extent: int) -> bool:
    # the place on an axis of one element was simplified to the number 0
    return one.same_as(other) or (extent == 1 and isinstance(one, tirx.IntImm))
