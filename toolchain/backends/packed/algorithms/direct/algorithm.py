"""The algorithm `direct`: sums over input channels and taps."""

from __future__ import annotations

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import PackedAlgorithm
from toolchain.backends.packed.algorithms.cost import Cost
from toolchain.backends.packed.algorithms.direct import space
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.direct.cost import cost
from toolchain.backends.packed.algorithms.direct.loops import direct
from toolchain.backends.packed.algorithms.direct.taps import halo
from toolchain.backends.packed.algorithms.direct.weight import pack_weight
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read


class Direct(PackedAlgorithm[Convolution, DirectChoice]):
    """Direct convolution: sums over input channels and taps."""

    choice = DirectChoice
    any_products = True

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it is a convolution whose groups have several channels."""
        del machine
        return isinstance(contraction, Convolution) and not contraction.depthwise

    def default(self, contraction: Convolution, machine: Machine) -> DirectChoice:
        """Return the best tile by measurements or models."""
        return space.default(contraction, machine)

    def candidates(self, contraction: Convolution, machine: Machine) -> list[DirectChoice]:
        """Return the choices that a tuner may measure."""
        return space.candidates(contraction, machine)

    def legal(self, choice: DirectChoice, contraction: Convolution, machine: Machine) -> bool:
        """Return whether a choice fits the contraction and the registers."""
        return space.legal(choice, contraction, machine)

    def cost(self, choice: DirectChoice, contraction: Convolution, machine: Machine) -> Cost:
        """Return the estimated cost of a convolution without groups."""
        return cost(choice, contraction, machine)

    def halo(self, contraction: Convolution, choice: DirectChoice, machine: Machine) -> tuple[int, ...]:
        """Return the padding that is read: that of taps which are not skipped."""
        del machine
        return halo(contraction, choice)

    def weight(
        self, value: Array, contraction: Convolution, choice: DirectChoice, machine: Machine, input_lanes: int
    ) -> Array:
        """Return the weight, packed as `weight_shape`."""
        products = machine.products_of(contraction.dtype)
        value = value.astype(products.stored or value.dtype, copy=False)
        return pack_weight(value, contraction, choice, machine.lanes, input_lanes, products.depth)

    def function(
        self,
        read: Read,
        contraction: Convolution,
        choice: DirectChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        return direct(read, contraction, choice, layouts, machine)
