"""The algorithm `columnwise`, for few output channels: a vector's lanes are neighbouring columns."""

from __future__ import annotations

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Algorithm
from toolchain.backends.packed.algorithms.columnwise import space
from toolchain.backends.packed.algorithms.columnwise.choice import ColumnwiseChoice
from toolchain.backends.packed.algorithms.columnwise.cost import cost
from toolchain.backends.packed.algorithms.columnwise.grid import grid_of
from toolchain.backends.packed.algorithms.columnwise.loops import columnwise
from toolchain.backends.packed.algorithms.columnwise.turned import pack_turned, turned
from toolchain.backends.packed.algorithms.columnwise.weight import pack_weight
from toolchain.backends.packed.algorithms.cost import Cost
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read
from toolchain.backends.packed.recognise.transposed import Transposed

_WIDEST = 8  # largest stride: one vector for each phase is kept in registers


class Columnwise(Algorithm[Convolution | Transposed, ColumnwiseChoice]):
    """Convolution with few output channels: a vector's lanes are neighbouring columns."""

    choice = ColumnwiseChoice

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it has fewer output channels than lanes, and rows of at least one vector."""
        if machine.pieces.fine or not isinstance(contraction, Convolution | Transposed):
            return False
        stride, dilation = contraction.stride[-1], contraction.dilation[-1]
        if isinstance(contraction, Convolution):
            fits = 1 in (stride, dilation)
        else:
            fits = contraction.out[-1] % stride == 0  # so that all phases of a row have the same length
        columns = grid_of(contraction).out[-1]
        return fits and stride <= _WIDEST and contraction.co < machine.lanes <= columns

    def default(self, contraction: Convolution | Transposed, machine: Machine) -> ColumnwiseChoice:
        """Return the tile with the fewest loads per product."""
        return space.default(grid_of(contraction), machine)

    def candidates(self, contraction: Convolution | Transposed, machine: Machine) -> list[ColumnwiseChoice]:
        """Return the choices that a tuner may measure."""
        return space.candidates(grid_of(contraction), machine)

    def legal(
        self, choice: ColumnwiseChoice, contraction: Convolution | Transposed, machine: Machine
    ) -> bool:
        """Whether a choice fits the contraction and the registers."""
        return space.legal(choice, grid_of(contraction), machine)

    def cost(self, choice: ColumnwiseChoice, contraction: Convolution | Transposed, machine: Machine) -> Cost:
        """Return the estimated cost."""
        return cost(choice, contraction, machine)

    def weight(
        self,
        value: Array,
        contraction: Convolution | Transposed,
        choice: ColumnwiseChoice,
        machine: Machine,
        input_lanes: int,
    ) -> Array:
        """Return the weight, packed in the order in which the function reads it."""
        del machine, input_lanes
        if isinstance(contraction, Transposed):
            return pack_turned(value, contraction, choice)
        return pack_weight(value, contraction, choice)

    def function(
        self,
        read: Read,
        contraction: Convolution | Transposed,
        choice: ColumnwiseChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        if isinstance(contraction, Transposed):
            return turned(read, contraction, choice, layouts, machine)
        return columnwise(read, contraction, choice, layouts, machine)
