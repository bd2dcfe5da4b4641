"""An instruction that no machine has: four products of int8 for each sum, written as numbers."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.dot_products import Instruction, Products, VectorLoops
from toolchain.backends.packed.recognise.read import Expr


class Dot(Instruction):
    """Sums of products of bytes, as VNNI and Arm's dot products compute them."""

    def emit(
        self,
        nest: VectorLoops,
        total: tirx.Buffer,
        first: Expr,
        x: Callable[[int], Expr],
        weight: Callable[[int, Expr], Expr],
    ) -> None:
        """Emit it as numbers: what LLVM makes of it is not what is tested."""
        sums = self.products.sums
        with nest.vector(self.lanes) as lane:
            value = total[first + lane]
            for k in range(self.products.depth):
                value = value + x(k).astype(sums) * weight(k, lane).astype(sums)
            ir.buffer_store(total, value, [first + lane])


DOT = Products("dot", "int8", "int8", "int32", Dot, depth=4, rate=4.0, needs="dot")
