"""Tiles of products of matrices: what a core's registers hold."""

from __future__ import annotations

from toolchain.backends.packed.algorithms.choice import Choice, Order
from toolchain.backends.packed.core import Core
from toolchain.backends.packed.recognise.matmul import Matmul

_PIECES = 16  # parallel pieces from which on the rows need not be cut: four for each of four cores
_REPACKED = 8  # tiles of rows from which on a panel may be packed for each piece of them
# Multiply-adds that must be under way to keep two units of four cycles' latency busy (Intel's and AMD's
# optimisation manuals; Arm's cores need fewer).
_CHAINS = 8
_LOADS = 0.1  # what a load adds to a multiply-add's time: measured, 1 x 14 takes a tenth longer than 2 x 14


def dense_tile(work: Matmul, core: Core) -> Choice:
    """Return how a product is computed."""
    vectors = -(-work.columns.extent // core.lanes)

    def cost(blocks: int) -> float:
        """Vectors computed, those of the padding too, by what one of them takes."""
        rows = min(work.rows.extent, _limit(core, blocks))
        sums = blocks * rows
        waiting = max(1, _CHAINS / sums)
        return -(-vectors // blocks) * blocks * waiting * (1 + _LOADS * (blocks + rows) / sums)

    blocks = min(range(1, min(4, vectors) + 1), key=cost)
    return _choice(work, core, blocks, _limit(core, blocks), "channels")


def candidates(work: Matmul, core: Core) -> list[Choice]:
    """Return the ways to compute a product, the default first."""
    found = [dense_tile(work, core)]
    orders: tuple[Order, ...] = ("channels", "rows")
    for blocks in (4, 3, 2, 1):
        for limit in (_limit(core, blocks), _limit(core, blocks) - 2):
            found += [_choice(work, core, blocks, limit, order) for order in orders if limit > 0]
    return [choice for choice in dict.fromkeys(found) if legal(choice, work, core)]


def legal(choice: Choice, work: Matmul, core: Core) -> bool:
    """Whether a choice computes a product."""
    return (
        choice == Choice("dense", choice.blocks, choice.columns, choice.rows, order=choice.order)
        and 1 <= choice.blocks <= -(-work.columns.extent // core.lanes)
        and 1 <= choice.columns <= min(work.rows.extent, _limit(core, choice.blocks))
        and choice.blocks * (choice.columns + 1) < core.registers
        and choice.rows >= 1
    )


def _limit(core: Core, blocks: int) -> int:
    """Rows of a tile that leave registers for the operands."""
    if core.form == "lanes":  # a register of each row's inputs too
        return max(1, min(8, (core.registers - blocks - 1) // (blocks + 1)))
    return min(14, (core.registers - blocks - 1) // blocks)


def _choice(work: Matmul, core: Core, blocks: int, limit: int, order: Order) -> Choice:
    rows = work.rows.extent
    columns = -(-rows // -(-rows // limit))
    tiles = -(-rows // columns)
    pieces = work.batch.extent * -(-work.columns.extent // (core.lanes * blocks))
    steps = tiles if pieces >= _PIECES else max(1, tiles * pieces // _PIECES)
    if work.weight is None:
        steps = max(steps, min(tiles, _REPACKED))
    return Choice("dense", blocks, columns, steps, order=order)
