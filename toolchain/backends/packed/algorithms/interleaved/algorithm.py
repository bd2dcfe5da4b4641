"""The algorithm `interleaved`: a transposed convolution as convolutions whose outputs interleave."""

from __future__ import annotations

from math import prod

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Cost, Order, PackedAlgorithm
from toolchain.backends.packed.algorithms.interleaved.choice import (
    InterleavedChoice,
    pack_weight,
    weight_shape,
)
from toolchain.backends.packed.algorithms.interleaved.loops import interleaved
from toolchain.backends.packed.algorithms.items import fits
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.read import Read
from toolchain.backends.packed.recognise.transposed import Transposed

# The choices of `interleaved`: tiles whose sums fit the registers.


def default(conv: Transposed, machine: Machine) -> InterleavedChoice:
    """Return the choice that builds use without a record."""
    if machine.pieces.fine:
        return _choice(conv, machine, machine.tiles.blocks[0], "channels")
    return _choice(conv, machine, 2 if -(-conv.co // machine.lanes) % 2 == 0 else 1, "channels")


def candidates(conv: Transposed, machine: Machine) -> list[InterleavedChoice]:
    """Return the choices that a tuner may measure, the default first."""
    orders: tuple[Order, ...] = ("rows", "channels")
    ways = [_choice(conv, machine, blocks, order) for blocks in (2, 1) for order in orders]
    found = dict.fromkeys([default(conv, machine), *ways])
    return [choice for choice in found if legal(choice, conv, machine)]


def legal(choice: InterleavedChoice, conv: Transposed, machine: Machine) -> bool:
    """Return whether a choice computes a transposed convolution without spills."""
    return (
        choice.blocks >= 1
        and -(-conv.co // machine.lanes) % choice.blocks == 0
        and 1 <= choice.columns <= _limit(machine, choice.blocks)
        and choice.blocks * (choice.columns + 1) < machine.registers
        and fits(choice.group, machine)
    )


def _limit(machine: Machine, blocks: int) -> int:
    """Return the columns of a tile that leave registers for the operands."""
    return min(machine.tiles.transposed, (machine.registers - blocks - 1) // blocks)


def _choice(conv: Transposed, machine: Machine, blocks: int, order: Order) -> InterleavedChoice:
    """Return tiles of about equal width within the limit."""
    width = -(-conv.out[-1] // conv.stride[-1])  # of the outputs of one phase
    columns = -(-width // -(-width // _limit(machine, blocks)))
    return InterleavedChoice(blocks, columns, order=order, loads=machine.loads)


class Interleaved(PackedAlgorithm[Transposed, InterleavedChoice]):
    """Transposed convolution, computed as convolutions with stride 1 whose outputs interleave."""

    choice = InterleavedChoice

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it is a transposed convolution."""
        del machine
        return isinstance(contraction, Transposed)

    def default(self, contraction: Transposed, machine: Machine) -> InterleavedChoice:
        """Return the best tile by measurements or models."""
        return default(contraction, machine)

    def candidates(self, contraction: Transposed, machine: Machine) -> list[InterleavedChoice]:
        """Return the choices that a tuner may measure."""
        return candidates(contraction, machine)

    def legal(self, choice: InterleavedChoice, contraction: Transposed, machine: Machine) -> bool:
        """Return whether a choice fits the contraction and the registers."""
        return legal(choice, contraction, machine)

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
