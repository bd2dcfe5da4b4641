"""Tiles of transposed convolutions: what a core's registers hold."""

from __future__ import annotations

from toolchain.backends.packed.algorithms.choice import Choice, Order
from toolchain.backends.packed.core import Core
from toolchain.backends.packed.recognise.transposed import Transposed


def interleaved_tile(work: Transposed, core: Core) -> Choice:
    """Return how a transposed convolution is computed."""
    return _choice(work, core, 2 if -(-work.co // core.lanes) % 2 == 0 else 1, "channels")


def candidates(work: Transposed, core: Core) -> list[Choice]:
    """Return the ways to compute a transposed convolution, the default first."""
    orders: tuple[Order, ...] = ("rows", "channels")
    ways = [_choice(work, core, blocks, order) for blocks in (2, 1) for order in orders]
    found = dict.fromkeys([interleaved_tile(work, core), *ways])
    return [choice for choice in found if legal(choice, work, core)]


def legal(choice: Choice, work: Transposed, core: Core) -> bool:
    """Whether a choice computes a transposed convolution."""
    return (
        choice == Choice("interleaved", choice.blocks, choice.columns, order=choice.order)
        and choice.blocks >= 1
        and -(-work.co // core.lanes) % choice.blocks == 0
        and 1 <= choice.columns <= _limit(core, choice.blocks)
        and choice.blocks * (choice.columns + 1) < core.registers
    )


def _limit(core: Core, blocks: int) -> int:
    """Columns of a tile that leave registers for the operands."""
    if core.form == "lanes":
        return 8 if core.registers == 32 else 4
    return min(14, (core.registers - blocks - 1) // blocks) if core.registers == 32 else 4


def _choice(work: Transposed, core: Core, blocks: int, order: Order) -> Choice:
    """Return tiles of about the same width, none wider than the limit."""
    width = -(-work.out[-1] // work.stride[-1])  # of the outputs of one phase
    return Choice("interleaved", blocks, -(-width // -(-width // _limit(core, blocks))), order=order)
