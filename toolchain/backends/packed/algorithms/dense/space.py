"""Tiles of products of matrices: what a core's registers hold."""

from __future__ import annotations

from toolchain.backends.packed.algorithms.choice import Order
from toolchain.backends.packed.algorithms.dense.choice import DenseChoice
from toolchain.backends.packed.algorithms.items import fits
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.matmul import Matmul

_PIECES = 16  # parallel pieces from which on the rows need not be cut: four for each of four cores
_REPACKED = 8  # tiles of rows from which on a panel may be packed for each piece of them
# Multiply-adds that must be under way to keep two units of four cycles' latency busy (Intel's and AMD's
# optimisation manuals; Arm's cores need fewer).
_CHAINS = 8
_ITEMS = 128  # of a core: groups of 64, of which one computes while another waits for memory
_LOADS = 0.1  # what a load adds to a multiply-add's time: measured, 1 x 14 takes a tenth longer than 2 x 14


def default(product: Matmul, machine: Machine) -> DenseChoice:
    """Return how a product is computed."""
    vectors = -(-product.columns.extent // machine.lanes)

    def cost(blocks: int) -> float:
        """Vectors computed, those of the padding too, by what one of them takes."""
        rows = min(product.rows.extent, _limit(machine, blocks))
        sums = blocks * rows
        waiting = max(1, _CHAINS / sums)
        return -(-vectors // blocks) * blocks * waiting * (1 + _LOADS * (blocks + rows) / sums)

    if machine.pieces.fine:
        return _items(product, machine, vectors)
    blocks = min(range(1, min(4, vectors) + 1), key=cost)
    return _choice(product, machine, blocks, _limit(machine, blocks), "channels")


def _items(product: Matmul, machine: Machine, vectors: int) -> DenseChoice:
    """Return the largest tile that leaves every core of a device enough work items."""
    for blocks, limit in ((1, 7), (1, 4), (1, 2)):
        found = _choice(product, machine, blocks, limit, "channels")
        items = product.batch.extent * -(-product.rows.extent // found.rows) * vectors
        if items >= _ITEMS * machine.threads:
            return found
    return _choice(product, machine, 1, 1, "channels")


def candidates(product: Matmul, machine: Machine) -> list[DenseChoice]:
    """Return the ways to compute a product, the default first."""
    found = [default(product, machine)]
    orders: tuple[Order, ...] = ("channels", "rows")
    for blocks in (4, 3, 2, 1):
        for limit in (_limit(machine, blocks), _limit(machine, blocks) - 2):
            found += [_choice(product, machine, blocks, limit, order) for order in orders if limit > 0]
    return [choice for choice in dict.fromkeys(found) if legal(choice, product, machine)]


def legal(choice: DenseChoice, product: Matmul, machine: Machine) -> bool:
    """Whether a choice computes a product."""
    return (
        1 <= choice.vectors <= -(-product.columns.extent // machine.lanes)
        and 1 <= choice.rows <= min(product.rows.extent, _limit(machine, choice.vectors))
        and choice.vectors * (choice.rows + 1) < machine.registers
        and choice.tiles >= 1
        and fits(choice.group, machine)
    )


def _limit(machine: Machine, blocks: int) -> int:
    """Rows of a tile that leave registers for the operands."""
    if machine.operand == "lane":  # a register of each row's inputs too
        return max(1, min(8, (machine.registers - blocks - 1) // (blocks + 1)))
    return min(14, (machine.registers - blocks - 1) // blocks)


def _choice(product: Matmul, machine: Machine, blocks: int, limit: int, order: Order) -> DenseChoice:
    rows = product.rows.extent
    columns = -(-rows // -(-rows // limit))
    tiles = -(-rows // columns)
    pieces = product.batch.extent * -(-product.columns.extent // (machine.lanes * blocks))
    steps = tiles if pieces >= _PIECES else max(1, tiles * pieces // _PIECES)
    if product.weight is None:
        steps = max(steps, min(tiles, _REPACKED))
    if machine.pieces.fine:
        steps = 1
    return DenseChoice(blocks, columns, steps, order=order, loads=machine.loads)
