"""Instructions that add several products of bytes to each sum of int32."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import tvm
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.recognise.read import Expr, Var

# Instructions that multiply and accumulate: rows of what they do, and how a tile emits them.

Operand = Literal["memory", "lane"]


class VectorLoops(Protocol):
    """The part of the loop nest that an instruction uses."""

    def vector(self, count: int) -> AbstractContextManager[Var]:
        """Emit a loop whose turns are the lanes of a vector."""


@dataclass(frozen=True)
class Products:
    """How a machine multiplies and accumulates numbers of one type: what one instruction does.

    Attributes
    ----------
    name
        The type of floats; for bytes, the CPU feature by which `edge-rt probe` names the instruction, or the
        instruction itself if no probe measures it.
    inputs, weights, sums
        Types of the two factors and of the accumulator.
    code
        Emits the instruction.
    depth
        Products that are added to each sum at once: 1, or more where numbers are narrow.
    rate
        Products per second, relative to the machine's multiply-add of float32; 1.0: not measured.
    stored
        Type in which packed weights are stored; empty: their own.
    widened
        Type to which all inputs are converted before any of them is multiplied; empty: none is.
    needs
        What a CPU must have: a name in `Architecture.products`; empty: every CPU of the machine's row has it.
    parts
        Vectors of partial sums that are kept for each vector of sums.
    least
        Smallest weight; None: any of its type.
    """

    name: str
    inputs: str
    weights: str
    sums: str
    code: type[Instruction]
    depth: int = 1
    rate: float = 1.0
    stored: str = ""
    needs: str = ""
    parts: int = 1
    least: int | None = None
    widened: str = ""

    @property
    def plain(self) -> bool:
        """Whether factors and sums are of one type, and each sum gets one product at a time."""
        return self.inputs == self.weights == self.sums and self.depth == 1

    @property
    def size(self) -> int:
        """Bytes of a factor."""
        return int(tvm.DataType(self.inputs).itemsize)

    def lanes(self, vector: int) -> int:
        """Return how many sums fit a vector register, given its size in bytes."""
        return vector // int(tvm.DataType(self.sums).itemsize)


@dataclass(frozen=True)
class Instruction(ABC):
    """Adds products to one vector of sums: total[lane] += sum over k < depth of x[k] * weight[k, lane].

    Attributes
    ----------
    products
        What it multiplies.
    lanes
        Sums of one vector.
    operand
        Where x comes from: broadcast from `memory`, or a `lane` of a register of inputs.
    by_channel
        Whether it can also multiply the columns of every channel by itself, as depthwise convolutions do.
    """

    products: Products
    lanes: int
    operand: Operand
    by_channel: ClassVar[bool] = False

    @abstractmethod
    def emit(
        self,
        nest: VectorLoops,
        total: tirx.Buffer,
        first: Expr,
        x: Callable[[int], Expr],
        weight: Callable[[int, Expr], Expr],
    ) -> None:
        """Emit it for the vector of sums that begins at `first`; `x`: k -> input, `weight`: k, lane -> it."""


class MultiplyAdd(Instruction):
    """A multiply-add: one product for each lane."""

    def emit(
        self,
        nest: VectorLoops,
        total: tirx.Buffer,
        first: Expr,
        x: Callable[[int], Expr],
        weight: Callable[[int, Expr], Expr],
    ) -> None:
        """Emit a product and a sum, which LLVM makes one instruction."""
        with nest.vector(self.lanes) as lane:
            here = first + lane
            ir.buffer_store(total, total[here] + x(0) * weight(0, lane), [here])


def multiply_add(dtype: str) -> Products:
    """Return the multiply-add whose factors and sums are of one type."""
    return Products(dtype, dtype, dtype, dtype, MultiplyAdd)


DEPTH = 4
WORD = "int32"
"""Type in which the inputs of a dot product are moved: four bytes as one number."""


class DotProduct(Instruction):
    """Four neighbouring inputs, broadcast to all lanes, times four neighbouring weights of each lane."""

    by_channel = True

    @abstractmethod
    def intrinsic(self) -> str:
        """Return the name of LLVM's intrinsic for a vector of `lanes` sums."""

    def emit(
        self,
        nest: VectorLoops,
        total: tirx.Buffer,
        first: Expr,
        x: Callable[[int], Expr],
        weight: Callable[[int, Expr], Expr],
    ) -> None:
        """Emit the intrinsic; `x` is the first of four inputs in memory, or all four as one `WORD`."""
        del nest
        products, lanes = self.products, self.lanes
        inputs = tirx.reinterpret(f"{products.inputs}x{DEPTH * lanes}", tirx.Broadcast(word_of(x(0)), lanes))
        weights = neighbours_of(weight(0, tirx.const(0, "int32")), DEPTH * lanes)
        self.accumulate(total, first, inputs, weights)

    def accumulate(self, total: tirx.Buffer, first: Expr, inputs: Expr, weights: Expr) -> None:
        """Emit the intrinsic for vectors of four inputs and four weights for each lane."""
        place = tirx.Ramp(first, 1, self.lanes)
        sums, kind = tirx.BufferLoad(total, [place]), f"{self.products.sums}x{self.lanes}"
        value = tirx.call_llvm_pure_intrin(kind, self.intrinsic(), sums, *self.factors(inputs, weights))
        ir.buffer_store(total, value, [place])

    def factors(self, inputs: Expr, weights: Expr) -> tuple[Expr, Expr]:
        """Return the factors in the order in which the intrinsic takes them."""
        return inputs, weights


class VectorNeural(DotProduct):
    """Unsigned inputs and signed weights: vpdpbusd of x86, also in its VEX form (Intel SDM, vol. 2)."""

    def intrinsic(self) -> str:
        """Return the name for 512 or 256 bits."""
        return f"llvm.x86.avx512.vpdpbusd.{self.lanes * 32}"


class SignedDot(DotProduct):
    """Signed inputs and weights: sdot of Arm (Arm ARM, C7.2, SDOT by element and by vector)."""

    def intrinsic(self) -> str:
        """Return the name for 128 bits."""
        return "llvm.aarch64.neon.sdot.v4i32.v16i8"

    def factors(self, inputs: Expr, weights: Expr) -> tuple[Expr, Expr]:
        """Return the weights first: only the second factor may be broadcast from a lane."""
        return weights, inputs


class WidenedPairs(Instruction):
    """Two neighbouring inputs times two weights of each lane, all of 16 bits: pmaddwd of x86.

    Inputs were widened to 16 bits before, so that one instruction loads and broadcasts a pair. No product or
    sum of two is beyond 32 bits: the result is exact; pmaddubsw, which takes bytes, cuts sums off at 16 bits
    (Intel SDM, vol. 2).
    """

    def emit(
        self,
        nest: VectorLoops,
        total: tirx.Buffer,
        first: Expr,
        x: Callable[[int], Expr],
        weight: Callable[[int, Expr], Expr],
    ) -> None:
        """Emit the intrinsic, and the sum."""
        del nest
        lanes, depth = self.lanes, self.products.depth
        pair = tirx.reinterpret(WORD, neighbours_of(x(0), depth))
        inputs = tirx.reinterpret(f"{self.products.widened}x{depth * lanes}", tirx.Broadcast(pair, lanes))
        self.accumulate(total, first, inputs, neighbours_of(weight(0, tirx.const(0, "int32")), depth * lanes))

    def accumulate(self, total: tirx.Buffer, first: Expr, inputs: Expr, weights: Expr) -> None:
        """Emit the intrinsic and the sum for vectors of two inputs and two weights for each lane."""
        name = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}[self.lanes]
        products = tirx.call_llvm_pure_intrin(f"int32x{self.lanes}", f"llvm.x86.{name}", inputs, weights)
        place = tirx.Ramp(first, 1, self.lanes)
        ir.buffer_store(total, tirx.Add(tirx.BufferLoad(total, [place]), products), [place])


def word_of(value: Expr) -> Expr:
    """Return four inputs as one `WORD`: the first of them in memory, or a word already."""
    return value if str(value.ty) == WORD else tirx.reinterpret(WORD, neighbours_of(value, DEPTH))


def distance_between(one: TensorLoad, other: TensorLoad) -> Expr:
    """Return how many numbers behind one load another load of the same buffer reads."""
    distance: Expr = tirx.const(0, "int32")
    for extent, first, second in zip(one.source.shape, one.indices, other.indices, strict=True):
        distance = distance * extent + (second - first)
    return distance


def neighbours_of(value: Expr, count: int) -> TensorLoad:
    """Return the load of `count` neighbouring numbers, the first of which `value` loads.

    Raises
    ------
    TypeError
        The value is no load.
    """
    if not isinstance(value, TensorLoad):
        raise TypeError(f"a load was expected, not {value}")
    *place, last = value.indices
    return tirx.BufferLoad(value.source, [*place, last if count == 1 else tirx.Ramp(last, 1, count)])


# Rates relative to the multiply-add of float32: vpdpbusd on a Zen 4 core 473 GOPS of 118, pmaddwd and a sum
# 236; sdot by Arm's "Cortex-A76 Software Optimization Guide", both at two instructions a cycle.
VNNI = Products("avx512_vnni", "uint8", "int8", "int32", VectorNeural, depth=DEPTH, rate=4.0, needs="dot")
VNNI_AVX = Products(
    "avx_vnni", "uint8", "int8", "int32", VectorNeural, depth=DEPTH, rate=4.0, needs="dot-avx"
)
PMADDWD = Products(
    "pmaddwd", "uint8", "int8", "int32", WidenedPairs, depth=2, rate=2.0, stored="int16", widened="int16"
)
SDOT = Products("asimddp", "int8", "int8", "int32", SignedDot, depth=DEPTH, rate=4.0, needs="dot")
