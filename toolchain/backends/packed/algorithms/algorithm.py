"""What every way of computing is asked for: one object for each stands in `table`."""

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
    """One way of computing a kind of contraction.

    Attributes
    ----------
    choice
        The type of its choices.
    values
        How its input and output lie in memory: in blocks of channels (`packed`), as the network has them
        (`plain`), or as they come (`either`).
    exact
        Its rounding errors are those of sums of products; others are left out by `--winograd off`.
    full_blocks
        It reads its input in full blocks, however few channels that has.
    any_products
        It can use instructions that add several products to each sum, or keep sums of another type.
    """

    choice: type[K]
    values: ClassVar[Literal["packed", "plain", "either"]] = "plain"
    exact: ClassVar[bool] = True
    full_blocks: ClassVar[bool] = False
    any_products: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """What its choices, records and rules call it."""
        return self.choice.algorithm

    @abstractmethod
    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Whether this computes a contraction, by some choice."""

    @abstractmethod
    def default(self, contraction: C, machine: Machine) -> K | None:
        """Return the choice that is taken without a record; None: there is no good one."""

    @abstractmethod
    def candidates(self, contraction: C, machine: Machine) -> list[K]:
        """Return the choices that a tuner may measure, the most promising first."""

    @abstractmethod
    def legal(self, choice: K, contraction: C, machine: Machine) -> bool:
        """Whether a choice computes a contraction that the algorithm applies to."""

    def cost(self, choice: K, contraction: C, machine: Machine) -> Cost | None:
        """Return what a choice is estimated to cost; None: no other algorithm applies, so none was made."""
        del choice, contraction, machine
        return None

    def source(self, contraction: C) -> tirx.Buffer | None:
        """Return the operand that must be packed; None: none."""
        del contraction
        return None

    def halo(self, contraction: C, choice: K) -> tuple[int, ...]:
        """Return the zeros that are read around the packed operand, before each axis and then after it."""
        del contraction, choice
        return ()

    def constant(self, param: tirx.Buffer, contraction: C, machine: Machine) -> Layout | None:
        """Return the layout in which a constant that is not the weight is read; None: plain."""
        del param, contraction, machine
        return None

    @abstractmethod
    def weight(self, value: Array, contraction: C, choice: K, machine: Machine, input_lanes: int) -> Array:
        """Return a constant weight in the order in which the function reads it.

        Parameters
        ----------
        input_lanes
            Channels of a block of the input; 1 where it is plain.
        """

    @abstractmethod
    def function(
        self, read: Read, contraction: C, choice: K, layouts: Layouts, machine: Machine
    ) -> tirx.PrimFunc:
        """Return the function, what follows the contraction element by element included."""


class PackedAlgorithm(Algorithm[W, K]):
    """An algorithm for convolutions on packed values."""

    values = "packed"

    def source(self, contraction: W) -> tirx.Buffer | None:
        """Return the convolution's input."""
        return contraction.x

    def halo(self, contraction: W, choice: K) -> tuple[int, ...]:
        """Return all zeros that the windows reach."""
        del choice
        return contraction.pads

    def constant(self, param: tirx.Buffer, contraction: W, machine: Machine) -> Layout | None:
        """Return blocks of channels for what has the output's channels and rank."""
        shape = shape_of(param)
        if len(shape) == len(contraction.out) + 2 and shape[1] == contraction.co:
            return dense_layout(machine.lanes, len(shape))
        return None
