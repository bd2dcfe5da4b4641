"""Weights are asked for before they are needed: no cache holds those of a whole network."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.recognise.read import Expr

LINE = 16
"""float32 numbers of a cache line, on x86 and ARM alike."""

_READ, _DATA = 0, 1
_FIRST, _SECOND = 3, 2  # LLVM's locality: into every cache, or into the second


def prefetch(buffer: tirx.Buffer, index: Sequence[Expr | int], near: bool) -> None:
    """Ask for the cache line of one element; it may lie behind the buffer's end.

    Parameters
    ----------
    near
        Into the first cache, else into the second.
    """
    kind = [tirx.const(each, "int32") for each in (_READ, _FIRST if near else _SECOND, _DATA)]
    address = tirx.address_of(tirx.BufferLoad(buffer, list(index)))
    ir.evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *kind))


def prefetch_share(
    buffer: tirx.Buffer,
    first: Sequence[Expr | int],
    elements: int,
    step: Expr,
    steps: int,
    analyzer: Analyzer,
    near: bool,
) -> None:
    """Ask in one of `steps` for its part of the `elements` from `first` on, so that memory is read evenly."""
    share = -(-elements // steps)
    start = analyzer.simplify(step * share)
    for offset in range(0, share, LINE):
        prefetch(buffer, [*first[:-1], first[-1] + start + offset], near)
