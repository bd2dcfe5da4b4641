"""The algorithm `columnwise`, for few output channels: a vector's lanes are neighbouring columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Algorithm, Cost, padded
from toolchain.backends.packed.algorithms.columnwise.choice import (
    PIECES,
    ColumnwiseChoice,
    InputWindow,
    bytes_of_window,
    columns_of_piece,
    needs_window,
    pack_weight,
    window_shape,
)
from toolchain.backends.packed.algorithms.columnwise.loops import Columns, Place, columnwise
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest, store_all
from toolchain.backends.packed.loops.tile import Tile
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr, Read
from toolchain.backends.packed.recognise.transposed import OutputPhase, Transposed

# Describes the input windows of a transposed convolution as those of a convolution with stride 1.


def grid_of(contraction: Convolution | Transposed) -> Convolution:
    """Return the convolution itself; for a transposed one, the convolution whose windows its phases read.

    One window has all inputs for the outputs of all phases at one input place: stride x stride outputs.
    """
    if isinstance(contraction, Convolution):
        return contraction
    axes = range(len(contraction.out))
    places = tuple(-(-out // stride) for out, stride in zip(contraction.out, contraction.stride, strict=True))
    before = contraction.pads[: len(places)]
    furthest = [max(0, *(each.offset for each in contraction.phases(axis))) for axis in axes]
    after = (
        max(0, place - 1 + far - size + 1)
        for place, far, size in zip(places, furthest, contraction.size, strict=True)
    )
    ones = (1,) * len(places)
    return Convolution(
        batch=contraction.batch,
        ci=contraction.ci,
        co=contraction.co,
        groups=contraction.groups,
        size=contraction.size,
        kernel=tuple(pad + far + 1 for pad, far in zip(before, furthest, strict=True)),
        out=places,
        stride=ones,
        dilation=ones,
        x=contraction.x,
        weight=contraction.weight,
        y=contraction.y,
        pads=(*before, *after),
    )


# Transposed convolution with few output channels on plain values.
#
# Outputs of a row with equal remainder by the stride form a phase. They are sums of neighbouring inputs, so
# a phase is computed in vectors of columns like a convolution with stride 1. The vectors of all phases are
# interleaved before they are stored. In blocks of channels, 64 to 3 channels with 4x4 taps at stride 2 took
# four times as long as onnxruntime.

_WRITTEN = 8  # a row with at most that many taps is fully unrolled


def turned(
    read: Read, conv: Transposed, choice: ColumnwiseChoice, layouts: Layouts, machine: Machine
) -> tirx.PrimFunc:
    """Return the function of a transposed convolution, epilogue included; no layout is packed."""
    if any(layouts):
        raise ValueError(f"{conv.y.name}: it is computed on plain values")
    return build(machine, lambda nest: _Turned(nest, read, conv, choice).emit())


def pack_turned(weight: Array, conv: Transposed, choice: ColumnwiseChoice) -> Array:
    """Return a weight (ci, co / groups, *kernel), packed for the function: taps by phase, C channels each."""
    theirs, ours = conv.ci // conv.groups, conv.co // conv.groups
    grouped = weight.reshape(conv.groups, theirs, ours, *conv.kernel)
    order = [
        tuple(each.first + tap * each.step for each, tap in zip(phase, taps, strict=True))
        for phase in _phases(conv)
        for taps in np.ndindex(*(each.taps for each in phase))
    ]
    taps = np.stack([grouped[(slice(None), slice(None), slice(None), *tap)] for tap in order], axis=-1)
    tiles = taps.transpose(0, 2, 1, 3).reshape(-1, choice.channels, theirs, len(order))
    return np.ascontiguousarray(tiles.transpose(0, 2, 3, 1)).reshape(_weight_shape(conv, choice))


def _weight_shape(conv: Transposed, choice: ColumnwiseChoice) -> tuple[int, ...]:
    return (conv.co // choice.channels, conv.ci // conv.groups, prod(conv.kernel) * choice.channels)


def _phases(conv: Transposed) -> list[tuple[OutputPhase, ...]]:
    return list(product(*(conv.phases(axis) for axis in range(len(conv.out)))))


class _Turned(Columns):
    def __init__(self, nest: Nest, read: Read, conv: Transposed, choice: ColumnwiseChoice) -> None:
        super().__init__(nest, read, grid_of(conv), choice, _weight_shape(conv, choice))
        self.turned = conv

    def tile(self, at: Place, window: InputWindow | None) -> None:
        """Emit the outputs of all phases at the tile's places."""
        conv, start = self.turned, 0
        *above, along = (conv.phases(axis) for axis in range(len(conv.out)))
        for phase in product(*above):
            row = [
                self.nest.simplify(place * stride + each.remainder)
                for place, stride, each in zip(at.row, conv.stride, phase, strict=False)
            ]
            inside = [
                place < out
                for place, out in zip(row, conv.out, strict=False)
                if not self.analyzer.can_prove(place < out)
            ]
            with self.nest.when(tirx.all(*inside) if inside else None):
                sums = []
                for last in along:
                    whole = (*phase, last)
                    sums.append(self.sums(at, prod(each.taps for each in whole)))
                    self._add(at, sums[-1], window, whole, start)
                    start += prod(each.taps for each in whole)
                self._store(at, row, [each.totals for each in sums])

    def _add(
        self, at: Place, tile: Tile, window: InputWindow | None, phase: Sequence[OutputPhase], start: int
    ) -> None:
        """Add the products of a phase, whose taps begin at `start` in the weight."""
        counts, before = [each.taps for each in phase], self.conv.pads
        if not all(counts):
            return
        size = counts[-1] if counts[-1] <= _WRITTEN else 1
        with tile.loops([self.conv.ci // self.conv.groups, *counts[:-1], counts[-1] // size], size) as (
            own,
            *taps,
            step,
        ):
            number: Expr = tirx.IntImm("int32", 0)
            for many, tap in zip(counts, taps, strict=False):
                number = number * many + tap
            first = self.nest.simplify(number * counts[-1] + step * size + start)
            weights = self.weights([at.group, own], first, size)
            lines = [
                self.nest.simplify(place + (each.offset + pad) - tap * each.back)
                for place, each, pad, tap in zip(at.inside, phase, before, taps, strict=False)
            ]
            last, pad = phase[-1], before[len(phase) - 1]
            for written in range(size):
                column = at.column + (last.offset + pad) - (step * size + written) * last.back
                place = [own, *lines, tirx.IntImm("int32", 0), column]
                self.multiply(at, tile, window, place, partial(weights, written))

    def _store(self, at: Place, row: Sequence[Expr], totals: Sequence[Sequence[tirx.Buffer]]) -> None:
        """Interleave the sums of all phases of a row, and store them."""
        lanes, stride, channels = self.lanes, self.turned.stride[-1], self.choice.channels
        wide = [buffer for vector in zip(*totals, strict=True) for buffer in self._interleaved(vector)]

        def index(vector: Expr, channel: Expr, lane: Expr) -> list[Expr]:
            first = at.first + self.vector(at, self.nest.simplify(vector // stride))
            column = first * stride + vector % stride * lanes + lane
            return [at.n, at.group * channels + channel, *row, self.nest.simplify(column)]

        store_all(self, wide, channels, index, loop=self.machine.operand == "memory")

    def _interleaved(self, phases: Sequence[tirx.Buffer]) -> list[tirx.Buffer]:
        """Turn one vector per phase into vectors of neighbouring outputs, for all channels."""
        lanes, stride, channels = self.lanes, len(phases), self.choice.channels
        if stride == 1:
            return list(phases)
        dtype = str(phases[0].dtype)
        found = [self.nest.local((channels * lanes,), dtype) for _ in range(stride)]
        for channel in range(channels):
            here = tirx.Ramp(channel * lanes, 1, lanes)
            own = [tirx.BufferLoad(each, [here]) for each in phases]
            for part, buffer in enumerate(found):
                places = range(part * lanes, (part + 1) * lanes)
                order = [place % stride * lanes + place // stride for place in places]
                ir.buffer_store(buffer, tirx.Shuffle(own, order), [here])
        return found


# The cost model of the algorithm `columnwise`.

_LINE = 64  # bytes of a cache line


def loads(choice: ColumnwiseChoice, machine: Machine, dtype: str) -> float:
    """Return the loads per vector of products; a load across two cache lines counts twice."""
    across = 1 + max(0.0, machine.vector / _LINE - machine.size(dtype) / _LINE)
    weights = choice.channels if machine.operand == "memory" else choice.channels / machine.lanes
    return (choice.vectors * across + weights) / (choice.vectors * choice.channels)


def cost(choice: ColumnwiseChoice, contraction: Convolution | Transposed, machine: Machine) -> Cost:
    """Return the estimated time of products and input copies, and the bytes of the weight."""
    conv, taps = grid_of(contraction), prod(contraction.kernel)
    rate, inner = machine.rates, conv.ci // conv.groups
    rows = conv.batch * prod(conv.out[:-1])
    products = rows * padded(conv.out[-1], machine.lanes) * taps * inner * conv.co
    seconds = 2 * products / machine.flops(conv.dtype) * max(1.0, loads(choice, machine, conv.dtype))
    if needs_window(conv):
        columns = columns_of_piece(conv, choice, machine)
        pieces = rows // (choice.rows if len(conv.out) > 1 else 1) * -(-conv.out[-1] // columns)
        seconds += pieces * prod(window_shape(conv, choice, machine, columns)) / rate.values
    if conv.ci >= machine.lanes:  # the input is packed, most likely
        seconds += conv.batch * conv.ci * prod(conv.size) / rate.values
    return Cost(seconds / machine.threads, taps * inner * conv.co * machine.size(conv.dtype))


# The choices of `columnwise`: tiles whose sums fit the registers.

_MOST_CHANNELS, _MOST_VECTORS, _MOST_ROWS = 8, 8, 32


def default(conv: Convolution, machine: Machine) -> ColumnwiseChoice:
    """Return the tile with the fewest loads per product, in pieces whose inputs fit the cache."""
    tiles = [_tile(conv, machine, channels) for channels in _channels(conv)]
    best = min(tiles, key=lambda tile: (loads(tile, machine, conv.dtype), -tile.channels))
    return replace(best, rows=_rows(conv, best, machine))


def candidates(conv: Convolution, machine: Machine) -> list[ColumnwiseChoice]:
    """Return the choices that a tuner may measure, the default first."""
    first = default(conv, machine)
    found = dict.fromkeys([first, *_space(conv, machine, first)])
    return [choice for choice in found if legal(choice, conv, machine)]


def legal(choice: ColumnwiseChoice, conv: Convolution, machine: Machine) -> bool:
    """Return whether a choice computes a convolution without spills."""
    if min(choice.channels, choice.vectors, choice.rows) < 1 or (conv.co // conv.groups) % choice.channels:
        return False
    if choice.rows > 1 and (len(conv.out) == 1 or conv.out[-2] % choice.rows):
        return False
    return choice.vectors <= _most_vectors(choice.channels, machine)


def _most_vectors(channels: int, machine: Machine) -> int:
    """Return the largest number of vectors per tile that leaves registers for inputs and a weight."""
    weights = 2 if machine.operand == "memory" else channels
    most = (machine.registers - weights) // (channels + 1)
    if machine.tiles.sums is not None:
        most = min(most, (machine.tiles.sums - 2) // channels)
    return max(1, most)


def _channels(conv: Convolution) -> list[int]:
    each = conv.co // conv.groups
    return [count for count in range(1, min(each, _MOST_CHANNELS) + 1) if each % count == 0]


def _tile(conv: Convolution, machine: Machine, channels: int) -> ColumnwiseChoice:
    """Return a tile with `channels` channels that divides the row into about equal parts that fit."""
    row = -(-conv.out[-1] // machine.lanes)
    most = min(_MOST_VECTORS, _most_vectors(channels, machine))
    return ColumnwiseChoice(channels, -(-row // -(-row // most)))


def _rows(conv: Convolution, choice: ColumnwiseChoice, machine: Machine) -> int:
    """Return the rows of a piece: as many as share inputs in the cache, but a piece for every thread."""
    if len(conv.out) == 1:
        return 1
    above = conv.batch * prod(conv.out[:-2])
    fitting = [
        rows
        for rows in range(1, min(conv.out[-2], _MOST_ROWS) + 1)
        if conv.out[-2] % rows == 0
        and above * (conv.out[-2] // rows) >= PIECES * machine.threads
        and bytes_of_window(conv, replace(choice, rows=rows), machine) <= machine.cache // 2
    ]
    return max(fitting, default=1)


def _space(conv: Convolution, machine: Machine, first: ColumnwiseChoice) -> Iterator[ColumnwiseChoice]:
    for channels in reversed(_channels(conv)):
        tile = _tile(conv, machine, channels)
        for vectors in (tile.vectors, _most_vectors(channels, machine), tile.vectors // 2):
            other = replace(tile, vectors=max(1, vectors))
            yield replace(other, rows=_rows(conv, other, machine))
    for rows in (1, 2, 4, 8, 16):
        yield replace(first, rows=rows)


_WIDEST = 8  # largest stride: one vector for each phase is kept in registers


class Columnwise(Algorithm[Convolution | Transposed, ColumnwiseChoice]):
    """Convolution with few output channels: a vector's lanes are neighbouring columns."""

    choice = ColumnwiseChoice

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it has fewer output channels than lanes, and rows of at least one vector."""
        if machine.pieces.fine or not isinstance(contraction, Convolution | Transposed):
            return False
        stride, dilation = contraction.stride[-1], contraction.dilation[-1]
        if isinstance(contraction, Convolution):
            fits = 1 in (stride, dilation)
        else:
            fits = contraction.out[-1] % stride == 0  # so that all phases of a row have the same length
        columns = grid_of(contraction).out[-1]
        return fits and stride <= _WIDEST and contraction.co < machine.lanes <= columns

    def default(self, contraction: Convolution | Transposed, machine: Machine) -> ColumnwiseChoice:
        """Return the tile with the fewest loads per product."""
        return default(grid_of(contraction), machine)

    def candidates(self, contraction: Convolution | Transposed, machine: Machine) -> list[ColumnwiseChoice]:
        """Return the choices that a tuner may measure."""
        return candidates(grid_of(contraction), machine)

    def legal(
        self, choice: ColumnwiseChoice, contraction: Convolution | Transposed, machine: Machine
    ) -> bool:
        """Whether a choice fits the contraction and the registers."""
        return legal(choice, grid_of(contraction), machine)

    def cost(self, choice: ColumnwiseChoice, contraction: Convolution | Transposed, machine: Machine) -> Cost:
        """Return the estimated cost."""
        return cost(choice, contraction, machine)

    def weight(
        self,
        value: Array,
        contraction: Convolution | Transposed,
        choice: ColumnwiseChoice,
        machine: Machine,
        input_lanes: int,
    ) -> Array:
        """Return the weight, packed in the order in which the function reads it."""
        del machine, input_lanes
        if isinstance(contraction, Transposed):
            return pack_turned(value, contraction, choice)
        return pack_weight(value, contraction, choice)

    def function(
        self,
        read: Read,
        contraction: Convolution | Transposed,
        choice: ColumnwiseChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        if isinstance(contraction, Transposed):
            return turned(read, contraction, choice, layouts, machine)
        return columnwise(read, contraction, choice, layouts, machine)
