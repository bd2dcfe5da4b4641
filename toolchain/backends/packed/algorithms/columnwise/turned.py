"""Transposed convolution with few output channels on plain values.

Outputs of a row with equal remainder by the stride form a phase. They are sums of neighbouring inputs, so a
phase is computed in vectors of columns like a convolution with stride 1. The vectors of all phases are
interleaved before they are stored. In blocks of channels, 64 to 3 channels with 4x4 taps at stride 2 took
four times as long as onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from math import prod

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.columnwise.choice import ColumnwiseChoice
from toolchain.backends.packed.algorithms.columnwise.grid import grid_of
from toolchain.backends.packed.algorithms.columnwise.loops import Columns, Place
from toolchain.backends.packed.algorithms.columnwise.window import InputWindow
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.endings import store_all
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.tile import Tile
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.read import Expr, Read
from toolchain.backends.packed.recognise.transposed import OutputPhase, Transposed

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
