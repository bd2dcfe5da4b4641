"""Instructions that multiply and accumulate: rows of what they do, and how a tile emits them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import tvm
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.recognise.read import Expr, Var

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
