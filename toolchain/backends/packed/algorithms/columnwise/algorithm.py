"""Sums of few output channels: every lane is a column."""

from __future__ import annotations

from tvm import tirx

from toolchain.backends.packed.algorithms.algorithm import Algorithm
from toolchain.backends.packed.algorithms.columnwise import space
from toolchain.backends.packed.algorithms.columnwise.choice import ColumnwiseChoice
from toolchain.backends.packed.algorithms.columnwise.cost import cost
from toolchain.backends.packed.algorithms.columnwise.loops import columnwise
from toolchain.backends.packed.algorithms.columnwise.weight import pack_weight
from toolchain.backends.packed.algorithms.cost import Cost
from toolchain.backends.packed.layout import Array, Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read

_WIDEST = 8  # strides; a vector of each phase is kept in registers


class Columnwise(Algorithm[Convolution, ColumnwiseChoice]):
    """Sums of few output channels: every lane is a column."""

    choice = ColumnwiseChoice

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Whether it has fewer output channels than lanes, and rows of a vector at least."""
        return (
            not machine.pieces.fine
            and isinstance(contraction, Convolution)
            and contraction.co < machine.lanes <= contraction.out[-1]
            and contraction.stride[-1] <= _WIDEST
            and 1 in (contraction.stride[-1], contraction.dilation[-1])
        )

    def default(self, contraction: Convolution, machine: Machine) -> ColumnwiseChoice:
        """Return the tile that loads least."""
        return space.default(contraction, machine)

    def candidates(self, contraction: Convolution, machine: Machine) -> list[ColumnwiseChoice]:
        """Return the choices that a tuner may measure."""
        return space.candidates(contraction, machine)

    def legal(self, choice: ColumnwiseChoice, contraction: Convolution, machine: Machine) -> bool:
        """Whether a choice fits the contraction and the registers."""
        return space.legal(choice, contraction, machine)

    def cost(self, choice: ColumnwiseChoice, contraction: Convolution, machine: Machine) -> Cost:
        """Return the estimate."""
        return cost(choice, contraction, machine)

    def weight(
        self,
        value: Array,
        contraction: Convolution,
        choice: ColumnwiseChoice,
        machine: Machine,
        input_lanes: int,
    ) -> Array:
        """Return the weight as `weight_shape` says."""
        del machine, input_lanes
        return pack_weight(value, contraction, choice)

    def function(
        self,
        read: Read,
        contraction: Convolution,
        choice: ColumnwiseChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the function, epilogue included."""
        return columnwise(read, contraction, choice, layouts, machine)
