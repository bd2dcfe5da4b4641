"""The algorithm `interleaved`: a transposed convolution as convolutions whose outputs interleave."""

from __future__ import annotations

from math import prod

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import PackedAlgorithm
from toolchain.backends.packed.algorithms.cost import Cost
from toolchain.backends.packed.algorithms.interleaved import space
from toolchain.backends.packed.algorithms.interleaved.choice import InterleavedChoice
from toolchain.backends.packed.algorithms.interleaved.loops import interleaved
from toolchain.backends.packed.algorithms.interleaved.weight import pack_weight, weight_shape
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.read import Read
from toolchain.backends.packed.recognise.transposed import Transposed


class Interleaved(PackedAlgorithm[Transposed, InterleavedChoice]):
    """Transposed convolution, computed as convolutions with stride 1 whose outputs interleave."""

    choice = InterleavedChoice

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it is a transposed convolution."""
        del machine
        return isinstance(contraction, Transposed)

    def default(self, contraction: Transposed, machine: Machine) -> InterleavedChoice:
        """Return the best tile by measurements or models."""
        return space.default(contraction, machine)

    def candidates(self, contraction: Transposed, machine: Machine) -> list[InterleavedChoice]:
        """Return the choices that a tuner may measure."""
        return space.candidates(contraction, machine)

    def legal(self, choice: InterleavedChoice, contraction: Transposed, machine: Machine) -> bool:
        """Return whether a choice fits the contraction and the registers."""
        return space.legal(choice, contraction, machine)

    def cost(self, choice: InterleavedChoice, contraction: Transposed, machine: Machine) -> Cost:
        """Return the estimated time of the products, padding channels included."""
        lanes = machine.lanes if contraction.ci >= machine.lanes else 1
        shape = weight_shape(contraction, choice, machine.lanes, lanes)
        places = prod(-(-out // step) for out, step in zip(contraction.out, contraction.stride, strict=True))
        seconds = (
            2 * contraction.batch * places * prod(shape) / machine.flops(contraction.dtype) / machine.threads
        )
        return Cost(seconds, prod(shape) * machine.size(contraction.dtype))

    def weight(
        self,
        value: Array,
        contraction: Transposed,
        choice: InterleavedChoice,
        machine: Machine,
        input_lanes: int,
    ) -> Array:
        """Return the weight, packed as `weight_shape`."""
        return pack_weight(value, contraction, choice, machine.lanes, input_lanes)

    def function(
        self,
        read: Read,
        contraction: Transposed,
        choice: InterleavedChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        return interleaved(read, contraction, choice, layouts, machine)
