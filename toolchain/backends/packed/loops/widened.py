"""Converts all inputs of a function before it multiplies them, for instructions whose factors are wider.

A convolution reads an input once for each tap and each group of outputs; converted there, an input of a byte
took four instructions for each two products of AVX2. Converted once, it takes one.
"""

from __future__ import annotations

from math import prod

from tvm import DataType, tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.memory import SMALL
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.read import Expr

_PIECE = 1 << 13  # numbers that a piece converts
_AT_ONCE = 4  # vectors of a turn


def widened(nest: Nest, source: tirx.Buffer, dtype: str) -> tirx.Buffer:
    """Emit the conversion of a whole parameter; return the buffer of its shape that has the result."""
    shape = [int(extent) for extent in source.shape]
    made, count = nest.shared(shape, dtype), prod(shape)
    flat = [ir.decl_buffer((count,), str(each.dtype), data=each.data) for each in (source, made)]
    wide = nest.machine.vector // DataType(dtype).itemsize * _AT_ONCE

    def convert(start: Expr, size: int) -> None:
        place = [start if size == 1 else tirx.Ramp(start, 1, size)]
        kind = dtype if size == 1 else f"{dtype}x{size}"
        ir.buffer_store(flat[1], tirx.Cast(kind, tirx.BufferLoad(flat[0], place)), place)

    turns, rest = divmod(count, wide)
    each = min(turns, _PIECE // wide)
    pieces, left = divmod(turns, each) if each else (0, 0)
    if pieces:
        with nest.pieces([pieces], small=count < SMALL) as (piece,), nest.serial(each) as turn:
            convert((piece * each + turn) * wide, wide)
    if left:
        with nest.serial(left) as turn:
            convert((pieces * each + turn) * wide, wide)
    for start, many, size in nest.vectors(rest):
        for first in range(start, start + many * size, size):
            convert(tirx.const(turns * wide + first, "int32"), size)
    return made
