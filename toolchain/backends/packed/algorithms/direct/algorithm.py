"""The algorithm `direct`: sums over input channels and taps."""

from __future__ import annotations

from math import prod

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Cost, PackedAlgorithm, missed, padded, seconds
from toolchain.backends.packed.algorithms.direct import space
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice, halo
from toolchain.backends.packed.algorithms.direct.loops import direct
from toolchain.backends.packed.algorithms.direct.space import pack_weight
from toolchain.backends.packed.algorithms.launch import alone
from toolchain.backends.packed.gpus import GpuRow
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import ITEMS
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read

# The cost model of the algorithm `direct`.


def cost(choice: DirectChoice, conv: Convolution, machine: Machine) -> Cost:
    """Return the estimated cost of a direct convolution without groups."""
    if machine.gpu is not None:
        return _on_gpu(choice, conv, machine, machine.gpu)
    rate = machine.rates
    ci, co = padded(conv.ci, machine.lanes), padded(conv.co, machine.lanes)
    products = conv.batch * prod(conv.out) * prod(conv.kernel) * ci * co
    weights = prod(conv.kernel) * ci * co * machine.size(conv.dtype)
    reads = conv.batch * max(1, prod(conv.out[:-1]) // choice.rows) if choice.order == "rows" else 1
    traffic = weights * (1 + (reads - 1) * missed(weights, machine) / rate.again)
    exposed = rate.exposed_of_passes if choice.depth else rate.exposed
    return Cost(
        seconds(2 * products / machine.flops(conv.dtype), traffic / rate.stream, exposed) / machine.threads,
        weights,
    )


def _on_gpu(choice: DirectChoice, conv: Convolution, machine: Machine, gpu: GpuRow) -> Cost:
    wide = machine.lanes * choice.blocks
    ci, co = padded(conv.ci, machine.lanes), padded(conv.co, wide)
    each = prod(conv.kernel) * ci
    items = conv.batch * co // wide * prod(conv.out[:-1]) * -(-conv.out[-1] // choice.columns)
    group = prod(choice.group) if choice.group else ITEMS
    time = alone(items, group, each * wide * choice.columns, each * (wide + choice.columns), gpu)
    return Cost(time, each * co * machine.size(conv.dtype))


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
