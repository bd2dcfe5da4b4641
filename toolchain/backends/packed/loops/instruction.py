"""Instructions that multiply and accumulate: all that a tile must know of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.recognise.read import Expr, Var

Operand = Literal["memory", "lane"]


class VectorLoops(Protocol):
    """What an instruction needs of the nest that it stands in."""

    def vector(self, count: int) -> AbstractContextManager[Var]:
        """Emit a loop whose turns are the lanes of a vector."""


class Instruction(Protocol):
    """What adds products to one vector of sums: total[lane] += sum over k < depth of x[k] * weight[k, lane].

    Attributes
    ----------
    lanes
        Sums of one vector.
    depth
        Products that are added to each of them at once: 1, or more where numbers are narrow.
    inputs, sums
        Types of what is multiplied and of the sums.
    operand
        Where x comes from: broadcast from `memory`, or a `lane` of a register of inputs.
    """

    @property
    def lanes(self) -> int: ...

    @property
    def depth(self) -> int: ...

    @property
    def inputs(self) -> str: ...

    @property
    def sums(self) -> str: ...

    @property
    def operand(self) -> Operand: ...

    def emit(
        self,
        nest: VectorLoops,
        total: tirx.Buffer,
        first: Expr,
        x: Callable[[int], Expr],
        weight: Callable[[int, Expr], Expr],
    ) -> None:
        """Emit it for the vector of sums that begins at `first`; `x`: k -> input, `weight`: k, lane -> it."""


@dataclass(frozen=True)
class MultiplyAdd:
    """A multiply-add of floats: one product for each lane."""

    lanes: int
    dtype: str
    operand: Operand
    depth: int = 1

    @property
    def inputs(self) -> str:
        """The same as that of the sums."""
        return self.dtype

    @property
    def sums(self) -> str:
        """The same as that of the inputs."""
        return self.dtype

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
