"""Products of bytes in pairs, for Arm cores without dot products: two products are added in 16 bits.

A word of four inputs is broadcast and multiplied by the four weights of each output (smull); a second word
is multiplied and added in the same 16 bits (smlal); then neighbours are added to int32 (sadalp). Each output
has two partial sums, which are added at the end (addp). Two products fit 16 bits if no weight is -128:
2 * 128 * 127 = 32512.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.dot_products import (
    DEPTH,
    Instruction,
    Products,
    VectorLoops,
    neighbours_of,
    word_of,
)
from toolchain.backends.packed.recognise.read import Expr

PARTS = 2
"""Partial sums of each output."""
TOGETHER = 2
"""Steps whose products are added in 16 bits: twice `DEPTH` products of each output."""
Weights = Callable[[int, Expr], Expr]


class Pairs(Instruction):
    """Four neighbouring inputs, broadcast, times four neighbouring weights of each lane.

    One or two such steps are emitted together. A vector of sums is `PARTS` vectors of partial sums, one
    behind the other; `join` adds them up.
    """

    by_channel = True

    @abstractmethod
    def added(self, sums: Expr, products: Expr) -> Expr:
        """Return int32 sums (4 lanes) with neighbours of int16 products (8 lanes) added to each."""

    def emit(
        self,
        nest: VectorLoops,
        total: tirx.Buffer,
        first: Expr,
        x: Callable[[int], Expr],
        weight: Weights,
    ) -> None:
        """Emit one step; `x` is the first of four inputs in memory, or all four as one `WORD`."""
        del nest
        self.accumulate(total, first, [x(0)], [weight])

    def accumulate(
        self, total: tirx.Buffer, first: Expr, inputs: Sequence[Expr], weights: Sequence[Weights]
    ) -> None:
        """Emit the products of at most `TOGETHER` steps."""
        count = DEPTH * self.lanes
        factors = []
        for four, weight in zip(inputs, weights, strict=True):
            x = tirx.reinterpret(f"int8x{count}", tirx.Broadcast(word_of(four), self.lanes))
            factors.append((x, neighbours_of(weight(0, tirx.const(0, "int32")), count)))
        summed = in_16_bits(factors, count)
        each = count // PARTS
        for part in range(PARTS):
            half = tirx.Shuffle([summed], list(range(part * each, (part + 1) * each)))
            place = tirx.Ramp(first * PARTS + part * self.lanes, 1, self.lanes)
            ir.buffer_store(total, self.added(tirx.BufferLoad(total, [place]), half), [place])

    def join(self, total: tirx.Buffer, parts: tirx.Buffer, vectors: int) -> None:
        """Emit the sums of the partial sums of `vectors` vectors."""
        lanes = self.lanes
        for vector in range(vectors):
            start = vector * lanes * PARTS
            both = [
                tirx.BufferLoad(parts, [tirx.Ramp(start + part * lanes, 1, lanes)]) for part in range(PARTS)
            ]
            even, odd = (tirx.Shuffle(both, list(range(k, 2 * lanes, 2))) for k in range(2))
            ir.buffer_store(total, even + odd, [tirx.Ramp(vector * lanes, 1, lanes)])


def in_16_bits(factors: Sequence[tuple[Expr, Expr]], lanes: int) -> Expr:
    """Return the sum of at most `TOGETHER` products of vectors of bytes, as int16."""
    if len(factors) > TOGETHER:
        raise ValueError(f"{len(factors)} products do not fit 16 bits")
    kind = f"int16x{lanes}"
    products: list[Expr] = [tirx.Cast(kind, x) * tirx.Cast(kind, weight) for x, weight in factors]
    return products[0] if len(products) == 1 else products[0] + products[1]


class Pairs64(Pairs):
    """AArch64's smull, smlal and sadalp (Arm ARM, C7.2)."""

    def added(self, sums: Expr, products: Expr) -> Expr:
        """Return what LLVM makes sadalp of."""
        name = "llvm.aarch64.neon.saddlp.v4i32.v8i16"
        wide: Expr = tirx.call_llvm_pure_intrin("int32x4", name, products)
        return sums + wide


class Pairs32(Pairs):
    """ARMv7's vmull, vmlal and vpadal (Arm ARM for ARMv7-A, A8.8)."""

    def added(self, sums: Expr, products: Expr) -> Expr:
        """Return vpadal."""
        name = "llvm.arm.neon.vpadals.v4i32.v8i16"
        added: Expr = tirx.call_llvm_pure_intrin("int32x4", name, sums, products)
        return added


# Rates relative to the multiply-add of float32: 8 products a cycle of 4, by llvm-mca's model of a Cortex-A72.
SMULL = Products("smull", "int8", "int8", "int32", Pairs64, depth=DEPTH, rate=2.0, parts=PARTS, least=-127)
VMULL = Products("vmull", "int8", "int8", "int32", Pairs32, depth=DEPTH, rate=1.0, parts=PARTS, least=-127)
