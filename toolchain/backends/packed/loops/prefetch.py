"""Emits prefetches of weights: no cache holds the weights of a whole network."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import DataType, tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.recognise.read import Expr

_LINE_BYTES = 64
LINE = _LINE_BYTES // 4
"""float32 numbers per cache line, on x86 and Arm."""

_READ, _DATA = 0, 1
_FIRST, _SECOND = 3, 2  # LLVM's locality: into all caches, or into L2 and beyond


def prefetch(buffer: tirx.Buffer, index: Sequence[Expr | int], near: bool) -> None:
    """Emit a prefetch of one element's cache line, which may be beyond the buffer's end.

    Parameters
    ----------
    near
        Whether to fetch into L1, else into L2.
    """
    kind = [tirx.const(each, "int32") for each in (_READ, _FIRST if near else _SECOND, _DATA)]
    address = tirx.address_of(tirx.BufferLoad(buffer, list(index)))
    ir.evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *kind))


def line_of(buffer: tirx.Buffer) -> int:
    """Return how many of a buffer's numbers a cache line has."""
    return _LINE_BYTES // int(DataType(str(buffer.dtype)).itemsize)


def prefetch_share(
    buffer: tirx.Buffer,
    first: Sequence[Expr | int],
    elements: int,
    step: Expr,
    steps: int,
    analyzer: Analyzer,
    near: bool,
) -> None:
    """Emit in one of `steps` the prefetch of its share of `elements`, to spread memory reads evenly."""
    share = -(-elements // steps)
    start = analyzer.simplify(step * share)
    for offset in range(0, share, line_of(buffer)):
        prefetch(buffer, [*first[:-1], first[-1] + start + offset], near)
