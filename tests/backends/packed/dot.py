"""Instructions that no machine of the package has: four products of int8 for each sum, in int32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.instruction import Instruction, Products, VectorLoops
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


class Sdot(Instruction):
    """Arm's dot product: sixteen bytes of weights, four for each sum."""

    def emit(
        self,
        nest: VectorLoops,
        total: tirx.Buffer,
        first: Expr,
        x: Callable[[int], Expr],
        weight: Callable[[int, Expr], Expr],
    ) -> None:
        """Emit LLVM's intrinsic."""
        del nest
        four = tirx.reinterpret("int32", loaded(x(0), 4))
        inputs = tirx.reinterpret("int8x16", tirx.Broadcast(four, 4))
        weights = loaded(weight(0, tirx.const(0, "int32")), 16)
        name, sums = "llvm.aarch64.neon.sdot.v4i32.v16i8", tirx.Ramp(first, 1, 4)
        value = tirx.call_llvm_pure_intrin("int32x4", name, tirx.BufferLoad(total, [sums]), inputs, weights)
        ir.buffer_store(total, value, [sums])


def loaded(value: Expr, count: int) -> Expr:
    """Return the load of so many numbers that begin with the one that is loaded here."""
    assert isinstance(value, TensorLoad)
    *place, last = value.indices
    return tirx.BufferLoad(value.source, [*place, tirx.Ramp(last, 1, count)])


DOT = Products("int8", "int8", "int32", Dot, depth=4, rate=4.0, needs="dot")
SDOT = replace(DOT, code=Sdot)
