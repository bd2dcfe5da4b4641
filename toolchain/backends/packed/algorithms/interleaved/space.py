"""The choices of `interleaved`: tiles whose sums fit the registers."""

from __future__ import annotations

from toolchain.backends.packed.algorithms.choice import Order
from toolchain.backends.packed.algorithms.interleaved.choice import InterleavedChoice
from toolchain.backends.packed.algorithms.items import fits
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.transposed import Transposed


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
