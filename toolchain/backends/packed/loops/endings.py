"""The end of a tile: computes outputs from its sums.

If an epilogue such as SiLU (the polynomial of exp, a division) is unrolled for every vector, it is most of
the code that TVM and LLVM compile. A long epilogue is therefore a loop over sums in memory: a 3x3 layer by
winograd then compiles in a quarter of the time, and is as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.read import Expr, Var

# Largest number of vectors per iteration; they share the polynomials' coefficients.
_AT_ONCE = 8


class Storing(Protocol):
    """The writer of outputs: `Emitter`, or an algorithm's own for plain values."""

    @property
    def nest(self) -> Nest: ...

    @property
    def lanes(self) -> int: ...

    @property
    def analyzer(self) -> Analyzer: ...

    @property
    def long(self) -> bool:
        """Whether the epilogue (operators after the sum) has a function that becomes long code."""

    def store(self, total: Expr, index: Sequence[Expr]) -> None:
        """Emit the output at a logical index, given the contraction's sum there."""


def store_all(
    emitter: Storing,
    totals: Sequence[tirx.Buffer],
    vectors: int,
    index: Callable[[Expr, Expr, Var], list[Expr]],
    *,
    loop: bool = True,
) -> None:
    """Emit the outputs of a tile.

    Parameters
    ----------
    totals
        Sums: one buffer of `vectors` vectors for each output block.
    index
        Returns the logical index of an output from block, vector and lane.
    loop
        Whether a long epilogue may be a loop.
    """
    nest, lanes, analyzer = emitter.nest, emitter.lanes, emitter.analyzer
    if not (loop and emitter.long):
        for number, total in enumerate(totals):
            with nest.unroll(vectors) as vector, nest.vector(lanes) as lane:
                own = tirx.IntImm("int32", number)
                emitter.store(total[vector * lanes + lane], index(own, vector, lane))
        return
    # A separate buffer: a buffer that is read at a variable index would not stay in registers.
    waiting = nest.local((len(totals) * vectors * lanes,), str(totals[0].dtype))
    for number, total in enumerate(totals):
        with nest.unroll(vectors) as vector, nest.vector(lanes) as lane:
            kept = total[vector * lanes + lane]
            ir.buffer_store(waiting, kept, [(vector + number * vectors) * lanes + lane])
    at_once = max(size for size in range(1, _AT_ONCE + 1) if vectors % size == 0)
    with (
        nest.grid([len(totals), vectors // at_once]) as (block, turn),
        nest.unroll(at_once) as each,
        nest.vector(lanes) as lane,
    ):
        place = analyzer.simplify(turn * at_once + each)
        emitter.store(waiting[(block * vectors + place) * lanes + lane], index(block, place, lane))
