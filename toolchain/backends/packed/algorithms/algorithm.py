"""The interface of an algorithm; `table` has one object for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, Literal, TypeVar

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.algorithms.cost import Cost
from toolchain.backends.packed.layout import Layout, Layouts, dense_layout
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read, shape_of
from toolchain.backends.packed.recognise.transposed import Transposed

C = TypeVar("C", bound=Contraction)
W = TypeVar("W", bound=Convolution | Transposed)
K = TypeVar("K", bound=Choice)


class Algorithm(ABC, Generic[C, K]):
    """A way to compute contractions of one kind.

    Attributes
    ----------
    choice
        Type of its choices.
    values
        Layout of its input and output: blocks of channels (`packed`), the network's own (`plain`), or the
        layout that the neighbours use (`either`).
    exact
        Whether it sums the products as the definition does, with the same kind of rounding errors;
        `--winograd off` excludes the others.
    full_blocks
        Whether it reads its input in full blocks even if it has fewer channels than a block.
    any_products
        Whether it can use instructions that add several products to each sum, or keep sums of another type.
    """

    choice: type[K]
    values: ClassVar[Literal["packed", "plain", "either"]] = "plain"
    exact: ClassVar[bool] = True
    full_blocks: ClassVar[bool] = False
    any_products: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name of the algorithm in choices, records and rules."""
        return self.choice.algorithm

    @abstractmethod
    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether at least one choice of this algorithm computes the contraction."""

    @abstractmethod
    def default(self, contraction: C, machine: Machine) -> K | None:
        """Return the choice that builds use without a record; None if there is no good one."""

    @abstractmethod
    def candidates(self, contraction: C, machine: Machine) -> list[K]:
        """Return the choices that a tuner may measure, the most promising first."""

    @abstractmethod
    def legal(self, choice: K, contraction: C, machine: Machine) -> bool:
        """Return whether a choice computes a contraction for which `applies` is true."""

    def cost(self, choice: K, contraction: C, machine: Machine) -> Cost | None:
        """Return the estimated cost of a choice; None if this algorithm has no cost model."""
        del choice, contraction, machine
        return None

    def source(self, contraction: C) -> tirx.Buffer | None:
        """Return the operand that must be packed; None if the algorithm reads all operands as they are."""
        del contraction
        return None

    def halo(self, contraction: C, choice: K, machine: Machine) -> tuple[int, ...]:
        """Return the padding needed around the packed operand: before each axis, then after each axis."""
        del contraction, choice, machine
        return ()

    def constant(self, param: tirx.Buffer, contraction: C, machine: Machine) -> Layout | None:
        """Return the layout of a constant that is not the weight; None for the plain layout."""
        del param, contraction, machine
        return None

    @abstractmethod
    def weight(self, value: Array, contraction: C, choice: K, machine: Machine, input_lanes: int) -> Array:
        """Return a constant weight, packed in the order in which the function reads it.

        Parameters
        ----------
        input_lanes
            Number of channels in a block of the input; 1 if the input is plain.
        """

    @abstractmethod
    def function(
        self, read: Read, contraction: C, choice: K, layouts: Layouts, machine: Machine
    ) -> tirx.PrimFunc:
        """Return the generated function, with the element-wise epilogue of the contraction."""


class PackedAlgorithm(Algorithm[W, K]):
    """An algorithm for convolutions on packed values."""

    values = "packed"

    def source(self, contraction: W) -> tirx.Buffer | None:
        """Return the convolution's input."""
        return contraction.x

    def halo(self, contraction: W, choice: K, machine: Machine) -> tuple[int, ...]:
        """Return the padding of the convolution on all sides."""
        del choice, machine
        return contraction.pads

    def constant(self, param: tirx.Buffer, contraction: W, machine: Machine) -> Layout | None:
        """Return the packed layout for a constant with the output's rank and channels, else None."""
        shape = shape_of(param)
        if len(shape) == len(contraction.out) + 2 and shape[1] == contraction.co:
            return dense_layout(machine.lanes, len(shape))
        return None
