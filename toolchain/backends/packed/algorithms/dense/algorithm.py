"""The algorithm `dense`: a matrix product on plain values."""

from __future__ import annotations

from math import prod

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import CHAINS, Algorithm, Cost, Order
from toolchain.backends.packed.algorithms.dense.loops import DenseChoice, dense, pack_weight
from toolchain.backends.packed.algorithms.items import fits
from toolchain.backends.packed.algorithms.launch import alone
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import ITEMS
from toolchain.backends.packed.recognise.contraction import Contraction, Matmul
from toolchain.backends.packed.recognise.read import Read

# The choices of `dense`: tiles whose sums fit the registers.

_PIECES = 16  # with so many pieces, rows need not be divided further: four for each of four cores
_REPACKED = 8  # smallest number of row tiles in a piece that packs its own panel
_ITEMS = 128  # work items per core: two groups of 64, one computes while the other waits for memory
_LOADS = 0.1  # time of a load relative to a multiply-add: measured, 1 x 14 takes a tenth longer than 2 x 14


def default(product: Matmul, machine: Machine) -> DenseChoice:
    """Return the choice that builds use without a record."""
    vectors = -(-product.columns.extent // machine.lanes)

    def relative(blocks: int) -> float:
        """Return the relative time of all vectors, padding included, with tiles of that many blocks."""
        rows = min(product.rows.extent, _limit(product, machine, blocks))
        sums = blocks * rows
        waiting = max(1, CHAINS / sums)
        return -(-vectors // blocks) * blocks * waiting * (1 + _LOADS * (blocks + rows) / sums)

    if machine.pieces.fine:
        return _items(product, machine, vectors)
    blocks = min(range(1, min(4, vectors) + 1), key=relative)
    return _choice(product, machine, blocks, _limit(product, machine, blocks), "channels")


def _items(product: Matmul, machine: Machine, vectors: int) -> DenseChoice:
    """Return the largest tile with which every core of a device has enough work items."""
    for blocks, limit in ((1, 7), (1, 4), (1, 2)):
        found = _choice(product, machine, blocks, limit, "channels")
        items = product.batch.extent * -(-product.rows.extent // found.rows) * vectors
        if items >= _ITEMS * machine.threads:
            return found
    return _choice(product, machine, 1, 1, "channels")


def candidates(product: Matmul, machine: Machine) -> list[DenseChoice]:
    """Return the choices that a tuner may measure, the default first."""
    found = [default(product, machine)]
    orders: tuple[Order, ...] = ("channels", "rows")
    for blocks in (4, 3, 2, 1):
        for limit in (_limit(product, machine, blocks), _limit(product, machine, blocks) - 2):
            found += [_choice(product, machine, blocks, limit, order) for order in orders if limit > 0]
    return [choice for choice in dict.fromkeys(found) if legal(choice, product, machine)]


def legal(choice: DenseChoice, product: Matmul, machine: Machine) -> bool:
    """Return whether a choice computes a product without spills."""
    return (
        1 <= choice.vectors <= -(-product.columns.extent // machine.lanes)
        and 1 <= choice.rows <= min(product.rows.extent, _limit(product, machine, choice.vectors))
        and choice.vectors * (choice.rows + 1) < machine.registers
        and choice.tiles >= 1
        and fits(choice.group, machine)
    )


def cost(choice: DenseChoice, product: Matmul, machine: Machine) -> Cost | None:
    """Return the estimated cost on a GPU, whose items read both operands from memory; None elsewhere."""
    if machine.gpu is None:
        return None
    wide, rows, inner = choice.vectors * machine.lanes, choice.rows, product.inner.extent
    columns = -(-product.columns.extent // wide)
    items = product.batch.extent * columns * -(-product.rows.extent // rows)
    group = prod(choice.group) if choice.group else ITEMS
    time = alone(items, group, inner * wide * rows, inner * (wide + rows), machine.gpu)
    weights = product.batch.extent * inner * columns * wide * machine.size(product.dtype)
    return Cost(time, weights)


def _limit(product: Matmul, machine: Machine, blocks: int) -> int:
    """Return the rows of a tile that leave registers for the operands."""
    paired = machine.paired(product.dtype, blocks)
    if paired is not None:
        return paired
    if machine.operand == "lane":  # the inputs of each row need a register too
        return max(1, min(8, (machine.registers - blocks - 1) // (blocks + 1)))
    return min(14, machine.columns_of(product.dtype, blocks))


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


class Dense(Algorithm[Matmul, DenseChoice]):
    """Matrix product on plain values."""

    choice = DenseChoice
    any_products = True

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it is a matrix product whose factors the instruction can load."""
        if not isinstance(contraction, Matmul):
            return False
        depth = machine.products_of(contraction.dtype).depth
        return depth == 1 or (contraction.in_rows and contraction.inner.extent % depth == 0)

    def default(self, contraction: Matmul, machine: Machine) -> DenseChoice:
        """Return the best tile by measurements or models."""
        return default(contraction, machine)

    def candidates(self, contraction: Matmul, machine: Machine) -> list[DenseChoice]:
        """Return the choices that a tuner may measure."""
        return candidates(contraction, machine)

    def legal(self, choice: DenseChoice, contraction: Matmul, machine: Machine) -> bool:
        """Return whether a choice fits the contraction and the registers."""
        return legal(choice, contraction, machine)

    def cost(self, choice: DenseChoice, contraction: Matmul, machine: Machine) -> Cost | None:
        """Return the estimated cost on a GPU; None on other machines."""
        return cost(choice, contraction, machine)

    def weight(
        self, value: Array, contraction: Matmul, choice: DenseChoice, machine: Machine, input_lanes: int
    ) -> Array:
        """Return the weight, packed in panels; see `weight_shape`."""
        del input_lanes
        products = machine.products_of(contraction.dtype)
        value = value.astype(products.stored or value.dtype, copy=False)
        return pack_weight(value, contraction, choice, machine.lanes, products.depth)

    def function(
        self,
        read: Read,
        contraction: Matmul,
        choice: DenseChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        return dense(read, contraction, choice, layouts, machine)
