"""The algorithm `depthwise`: sums over taps, every lane a channel of its own."""

from __future__ import annotations

from math import prod

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import PackedAlgorithm
from toolchain.backends.packed.algorithms.cost import Cost, padded
from toolchain.backends.packed.algorithms.depthwise import neighbours, space
from toolchain.backends.packed.algorithms.depthwise.choice import DepthwiseChoice
from toolchain.backends.packed.algorithms.depthwise.loops import depthwise
from toolchain.backends.packed.algorithms.depthwise.weight import pack_weight
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read


class Depthwise(PackedAlgorithm[Convolution, DepthwiseChoice]):
    """Depthwise convolution: sums over taps, every lane a channel of its own."""

    choice = DepthwiseChoice
    full_blocks = True
    any_products = True

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether every channel is a group of its own, of numbers that the machine multiplies so."""
        if not isinstance(contraction, Convolution) or not contraction.depthwise:
            return False
        return machine.products_of(contraction.dtype).plain or neighbours.takes_neighbours(
            contraction, machine
        )

    def default(self, contraction: Convolution, machine: Machine) -> DepthwiseChoice:
        """Return the best tile by measurements or models."""
        return space.default(contraction, machine)

    def candidates(self, contraction: Convolution, machine: Machine) -> list[DepthwiseChoice]:
        """Return the choices that a tuner may measure."""
        return space.candidates(contraction, machine)

    def legal(self, choice: DepthwiseChoice, contraction: Convolution, machine: Machine) -> bool:
        """Return whether a choice fits the contraction and the registers."""
        return space.legal(choice, contraction, machine)

    def cost(self, choice: DepthwiseChoice, contraction: Convolution, machine: Machine) -> Cost:
        """Return the estimated time of the products, padding channels included; on a GPU of the kernels."""
        taps, channels = prod(contraction.kernel), padded(contraction.co, machine.lanes)
        products = contraction.batch * prod(contraction.out) * taps * channels
        seconds = 2 * products / machine.flops(contraction.dtype) / machine.threads
        if machine.gpu is not None:
            seconds = space.seconds_on_gpu(choice, contraction, machine, machine.gpu)
        return Cost(seconds, taps * channels * machine.size(contraction.dtype))

    def halo(self, contraction: Convolution, choice: DepthwiseChoice, machine: Machine) -> tuple[int, ...]:
        """Return the padding of the convolution, and what else its loads read."""
        del choice
        depth = machine.products_of(contraction.dtype).depth
        return contraction.pads if depth == 1 else neighbours.halo(contraction, depth)

    def weight(
        self,
        value: Array,
        contraction: Convolution,
        choice: DepthwiseChoice,
        machine: Machine,
        input_lanes: int,
    ) -> Array:
        """Return the weight, packed as `weight_shape`."""
        del choice, input_lanes
        depth = machine.products_of(contraction.dtype).depth
        if depth > 1:
            return neighbours.pack_weight(value, contraction, machine.lanes, depth)
        return pack_weight(value, contraction, machine.lanes)

    def function(
        self,
        read: Read,
        contraction: Convolution,
        choice: DepthwiseChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        return depthwise(read, contraction, choice, layouts, machine)
