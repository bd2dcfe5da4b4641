"""The algorithm `depthwise`: sums over taps, every lane a channel of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Choice, Cost, PackedAlgorithm, padded
from toolchain.backends.packed.algorithms.depthwise import pairs
from toolchain.backends.packed.algorithms.items import column_choices, columns_of, fits, group_choices
from toolchain.backends.packed.algorithms.launch import alone
from toolchain.backends.packed.algorithms.pieces import MOST_ROWS, rows_of_piece
from toolchain.backends.packed.dot_products import DotProduct
from toolchain.backends.packed.gpus import GpuRow
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.emitter import Emitter
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest, shares, store_all
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import ITEMS
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr, Read

# The choice of the algorithm `depthwise`.


@dataclass(frozen=True)
class DepthwiseChoice(Choice):
    """A register tile: sums of some columns of one block of channels.

    Attributes
    ----------
    columns
        Output columns of a tile.
    rows
        Output rows of one parallel piece of work.
    """

    algorithm = "depthwise"
    columns: int = 1
    rows: int = 1


# Depthwise convolution by dot products: one instruction multiplies neighbouring columns of every channel.
#
# The columns of a block of channels lie one behind the other. One load has as many of them as a dot product
# adds up, and one shuffle puts the columns of each channel side by side: a row of a 3x3 kernel is a load, a
# shuffle and a dot product. Columns beyond the kernel are multiplied by zeros.


def takes_neighbours(conv: Convolution, machine: Machine) -> bool:
    """Return whether the machine multiplies these numbers by dot products, and the taps are neighbours."""
    return issubclass(machine.products_of(conv.dtype).code, DotProduct) and conv.dilation[-1] == 1


def halo(conv: Convolution, depth: int) -> tuple[int, ...]:
    """Return the padding around the image, with the columns behind it that the last load reads too."""
    *pads, last = conv.pads
    reads = (conv.out[-1] - 1) * conv.stride[-1] + steps(conv, depth) * depth
    return (*pads, max(last, reads - conv.size[-1] - conv.pads[len(conv.out) - 1]))


def steps(conv: Convolution, depth: int) -> int:
    """Return the number of instructions for a row of the kernel."""
    return -(-conv.kernel[-1] // depth)


def neighbours_weight_shape(conv: Convolution, lanes: int, depth: int) -> tuple[int, ...]:
    """Return (c / V, *kernel without its columns, columns / D, V D)."""
    return (-(-conv.co // lanes), *conv.kernel[:-1], steps(conv, depth), lanes * depth)


def neighbours_pack_weight(weight: Array, conv: Convolution, lanes: int, depth: int) -> Array:
    """Return a weight (c, 1, *kernel) with the columns of a channel side by side, and zeros behind them."""
    shape = neighbours_weight_shape(conv, lanes, depth)
    blocks, *rows, many, _row = shape
    full = conv.reached(weight)[:, 0]
    around = [(0, -conv.co % lanes), *((0, 0) for _ in rows), (0, many * depth - conv.kernel[-1])]
    split = np.pad(full, around).reshape(blocks, lanes, *rows, many, depth)
    return np.ascontiguousarray(np.moveaxis(split, 1, -2)).reshape(shape)


def neighbours_tile(
    emitter: Emitter, n: Expr, block: Expr, row: list[Expr], first: Expr, columns: int
) -> None:
    """Emit a tile: `columns` outputs of all channels of a block."""
    conv, nest, lanes = emitter.conv, emitter.nest, emitter.lanes
    instruction = nest.machine.instruction(emitter.dtype)
    if not isinstance(instruction, DotProduct) or not isinstance(conv, Convolution):
        raise TypeError(f"{emitter.dtype}: a convolution by dot products is needed")
    depth, products = instruction.products.depth, instruction.products
    total = nest.local((columns * lanes,), products.sums)
    with nest.unroll(columns) as column, nest.vector(lanes) as lane:
        ir.buffer_store(total, tirx.const(0, products.sums), [column * lanes + lane])
    order = [column * lanes + lane for lane in range(lanes) for column in range(depth)]
    whole = tirx.Ramp(0, 1, lanes * depth)
    with nest.grid(conv.kernel[:-1]) as taps, nest.unroll(steps(conv, depth)) as step:
        at = [
            place * stride + tap * dilation + origin
            for place, stride, tap, dilation, origin in zip(
                row, conv.stride, taps, conv.dilation, emitter.origin, strict=False
            )
        ]
        weights = emitter.weight[(block, *taps, step, whole)]
        with nest.unroll(columns) as column:
            begin = (first + column) * conv.stride[-1] + step * depth + emitter.origin[-1]
            inputs = tirx.Shuffle([tirx.BufferLoad(emitter.x, [n, block, *at, begin, whole])], order)
            instruction.accumulate(total, column * lanes, inputs, weights)

    def index(_block: Expr, column: Expr, lane: Expr) -> list[Expr]:
        return [n, block * lanes + lane, *row, emitter.analyzer.simplify(first + column)]

    store_all(emitter, [total], columns, index)


# The packed weight of a depthwise convolution.


def weight_shape(conv: Convolution, lanes: int) -> tuple[int, ...]:
    """Return (c / V, *kernel, V), with V lanes."""
    return (-(-conv.co // lanes), *conv.kernel, lanes)


def weight_pack_weight(weight: Array, conv: Convolution, lanes: int) -> Array:
    """Return a weight (c, 1, *kernel), packed in the order in which the function reads it."""
    blocks, *kernel, _lanes = weight_shape(conv, lanes)
    around = [(0, -conv.co % lanes), *((0, 0) for _ in kernel)]
    blocked = np.pad(conv.reached(weight)[:, 0], around).reshape(blocks, lanes, *kernel)
    return np.copy(np.moveaxis(blocked, 1, -1), order="C")


# The choices of `depthwise`; `direct.space` says how the tiles were measured.

_WIDEST = 14  # largest number of columns per tile
_WIDEST_ON_GPUS = 7  # the same on GPUs with an estimate, whose items would spill wider ones


def default(conv: Convolution, machine: Machine) -> DepthwiseChoice:
    """Return the default tile; on x86, tiles of 4 to 14 columns measured alike."""
    pieces = conv.batch * -(-conv.co // machine.lanes)
    plain, other = machine.tiles.depthwise
    limit = other if conv.out[-1] <= machine.tiles.short or conv.stride[-1] > 1 else plain
    if machine.gpu is not None:
        return _on_gpu(conv, machine, machine.gpu)
    if machine.pieces.fine:
        return DepthwiseChoice(columns=columns_of(conv.out[-1], limit))
    rows = rows_of_piece(conv, machine, pieces, MOST_ROWS)
    return DepthwiseChoice(columns=min(limit, conv.out[-1]), rows=rows)


def _on_gpu(conv: Convolution, machine: Machine, gpu: GpuRow) -> DepthwiseChoice:
    """Return the tile with the lowest estimated time: a row's rest would take a launch of its own."""
    tiles = [DepthwiseChoice(columns=columns) for columns in range(1, _WIDEST_ON_GPUS + 1)]
    return min(tiles, key=lambda choice: seconds_on_gpu(choice, conv, machine, gpu))


def seconds_on_gpu(choice: DepthwiseChoice, conv: Convolution, machine: Machine, gpu: GpuRow) -> float:
    """Return the estimated time of the launches of a choice."""
    lines, taps = conv.batch * padded(conv.co, machine.lanes) // machine.lanes, prod(conv.kernel)
    lines *= prod(conv.out[:-1])
    group, total = prod(choice.group) if choice.group else ITEMS, 0.0
    for _start, count, columns in shares(conv.out[-1], choice.columns):
        reach = (columns - 1) * conv.stride[-1] + (conv.kernel[-1] - 1) * conv.dilation[-1] + 1
        inputs = prod(conv.kernel[:-1]) * min(reach, columns * conv.kernel[-1])
        numbers = (inputs + taps) * machine.lanes
        total += alone(lines * count, group, taps * columns * machine.lanes, numbers, gpu)
    return total


def candidates(conv: Convolution, machine: Machine) -> list[DepthwiseChoice]:
    """Return the choices that a tuner may measure, the default first."""
    first = default(conv, machine)
    space = _items_space(conv, machine, first) if machine.pieces.fine else _space(conv, first)
    found = dict.fromkeys([first, *space])
    return [choice for choice in found if legal(choice, conv, machine)]


def legal(choice: DepthwiseChoice, conv: Convolution, machine: Machine) -> bool:
    """Return whether a choice computes a convolution without spills."""
    if machine.pieces.fine and (choice.rows > 1 or not fits(choice.group, machine)):
        return False
    if choice.rows > 1 and (len(conv.out) == 1 or conv.out[-2] % choice.rows):
        return False
    return choice.rows >= 1 and 1 <= choice.columns <= min(_WIDEST, machine.registers - 4)


def _items_space(conv: Convolution, machine: Machine, first: DepthwiseChoice) -> Iterator[DepthwiseChoice]:
    for columns in column_choices(conv.out[-1], 1, machine):
        yield replace(first, columns=columns)
    for group in group_choices(machine):
        yield replace(first, group=group)


def _space(conv: Convolution, first: DepthwiseChoice) -> Iterator[DepthwiseChoice]:
    for columns in (4, 5, 6, 7, 8, 10, 12, 14):
        yield replace(first, columns=min(columns, conv.out[-1]))
    for rows in (1, 2, 4, 7, 14, 28):
        yield replace(first, rows=rows)


# Depthwise convolution on packed values: every lane is a channel of its own.


def depthwise(
    read: Read, conv: Convolution, choice: DepthwiseChoice, layouts: Layouts, machine: Machine
) -> tirx.PrimFunc:
    """Return the packed function of a depthwise convolution, epilogue included."""

    def body(nest: Nest) -> None:
        depth, emit = machine.products_of(conv.dtype).depth, _tile
        shape, border = weight_shape(conv, machine.lanes), conv.pads
        if pairs.takes_pairs(conv, machine):
            emit = pairs.tile
        elif depth > 1:
            shape, border = neighbours_weight_shape(conv, machine.lanes, depth), halo(conv, depth)
            emit = neighbours_tile
        emitter = Emitter(nest, read, conv, layouts, shape, border)
        analyzer = emitter.analyzer
        outer = list(conv.out[:-1])
        rows = choice.rows if outer and outer[-1] % choice.rows == 0 else 1
        if outer:
            outer[-1] //= rows
        blocks = int(emitter.weight.shape[0])
        if machine.pieces.fine:
            for start, count, size in shares(conv.out[-1], choice.columns):
                space = [conv.batch, blocks, *conv.out[:-1], count]
                with nest.pieces(space, group=choice.group) as (n, block, *row, tile):
                    first = analyzer.simplify(tile * size + start)
                    emit(emitter, n, block, row, first, size)
                    emitter.zero_halo_of_tile(n, block, row, first, size)
            return
        space = [conv.batch, *outer, blocks]
        with (
            nest.pieces(space) as (n, *where, block),
            nest.grid([rows] if outer else []) as step,
        ):
            row = where
            if step:
                row = [*where[:-1], analyzer.simplify(where[-1] * rows + step[0])]
            for start, count, size in shares(conv.out[-1], choice.columns):
                with nest.grid([count]) as (tile,):
                    first = analyzer.simplify(tile * size + start)
                    emit(emitter, n, block, row, first, size)
            if any(emitter.layout(read.output).halo):
                emitter.zero_halo(n, block, row)

    return build(machine, body)


def _tile(emitter: Emitter, n: Expr, block: Expr, row: list[Expr], first: Expr, columns: int) -> None:
    conv, nest, analyzer, lanes = emitter.conv, emitter.nest, emitter.analyzer, emitter.lanes
    total = nest.local((columns * lanes,), emitter.dtype)
    with nest.unroll(columns) as column, nest.vector(lanes) as lane:
        ir.buffer_store(total, emitter.zero, [column * lanes + lane])
    with (
        nest.grid(conv.kernel[:-1]) as taps,
        nest.unroll(conv.kernel[-1]) as last,
        nest.unroll(columns) as column,
        nest.vector(lanes) as lane,
    ):
        at = [
            place * stride + tap * dilation + origin
            for place, stride, tap, dilation, origin in zip(
                [*row, first + column],
                conv.stride,
                [*taps, last],
                conv.dilation,
                emitter.origin,
                strict=True,
            )
        ]
        x = tirx.BufferLoad(emitter.x, [n, block, *at, lane])
        w = emitter.weight[(block, *taps, last, lane)]
        ir.buffer_store(total, total[column * lanes + lane] + x * w, [column * lanes + lane])

    def index(_block: Expr, column: Expr, lane: Expr) -> list[Expr]:
        return [n, block * lanes + lane, *row, analyzer.simplify(first + column)]

    store_all(emitter, [total], columns, index)


class Depthwise(PackedAlgorithm[Convolution, DepthwiseChoice]):
    """Depthwise convolution: sums over taps, every lane a channel of its own."""

    choice = DepthwiseChoice
    full_blocks = True
    any_products = True

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether every channel is a group of its own, of numbers that are multiplied here."""
        if not isinstance(contraction, Convolution) or not contraction.depthwise:
            return False
        if machine.products_of(contraction.dtype).plain or pairs.takes_pairs(contraction, machine):
            return True
        return takes_neighbours(contraction, machine)

    def default(self, contraction: Convolution, machine: Machine) -> DepthwiseChoice:
        """Return the best tile by measurements or models."""
        return default(contraction, machine)

    def candidates(self, contraction: Convolution, machine: Machine) -> list[DepthwiseChoice]:
        """Return the choices that a tuner may measure."""
        return candidates(contraction, machine)

    def legal(self, choice: DepthwiseChoice, contraction: Convolution, machine: Machine) -> bool:
        """Return whether a choice fits the contraction and the registers."""
        return legal(choice, contraction, machine)

    def cost(self, choice: DepthwiseChoice, contraction: Convolution, machine: Machine) -> Cost:
        """Return the estimated time of the products, padding channels included; on a GPU of the kernels."""
        taps, channels = prod(contraction.kernel), padded(contraction.co, machine.lanes)
        products = contraction.batch * prod(contraction.out) * taps * channels
        seconds = 2 * products / machine.flops(contraction.dtype) / machine.threads
        if machine.gpu is not None:
            seconds = seconds_on_gpu(choice, contraction, machine, machine.gpu)
        return Cost(seconds, taps * channels * machine.size(contraction.dtype))

    def halo(self, contraction: Convolution, choice: DepthwiseChoice, machine: Machine) -> tuple[int, ...]:
        """Return the padding of the convolution, and what else its loads read."""
        del choice
        if not takes_neighbours(contraction, machine):
            return contraction.pads
        return halo(contraction, machine.products_of(contraction.dtype).depth)

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
        if takes_neighbours(contraction, machine):
            return neighbours_pack_weight(value, contraction, machine.lanes, depth)
        return weight_pack_weight(value, contraction, machine.lanes)

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
