"""Transposed convolution on packed values, as stride x stride convolutions whose outputs interleave.

Outputs with equal remainder by the stride, a phase, are a direct convolution with stride 1 over the taps that
meet them. Tiles are as in `direct`; the weight has the taps of every phase side by side. Where there are
many phases, a loop goes over those that differ by their remainders alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tvm import tirx
from tvm.sym import Analyzer

from toolchain.backends.packed.algorithms.interleaved.choice import InterleavedChoice, inputs_of, weight_shape
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.emitter import Emitter
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest, store_all, tiles
from toolchain.backends.packed.loops.prefetch import LINE, prefetch
from toolchain.backends.packed.loops.tile import Tile
from toolchain.backends.packed.machine import STAYS, Machine
from toolchain.backends.packed.recognise.read import Expr, Read
from toolchain.backends.packed.recognise.transposed import OutputPhase, Transposed

# Runs of phases: neighbours that one loop computes, since they differ by their remainders alone.

_APART = 16
"""Most phases with code of their own: a stride of 4 along two axes. 64 took LLVM 44 s."""


@dataclass(frozen=True)
class PhaseRun:
    """Phases of an axis with equal taps at equal places.

    Attributes
    ----------
    first
        The one with the smallest remainder; those of the others follow.
    count
        Number of phases.
    before
        Taps of this axis that earlier phases have.
    """

    first: OutputPhase
    count: int
    before: int


def runs_of(conv: Transposed) -> list[tuple[PhaseRun, ...]]:
    """Return all combinations of the axes' runs; of a layer with few phases each is a run."""
    apart = prod(conv.stride) <= _APART
    return list(product(*(list(_runs(conv, axis, apart)) for axis in range(len(conv.out)))))


def first_tap(conv: Transposed, runs: Sequence[PhaseRun], steps: Sequence[Expr | int]) -> Expr | int:
    """Return the index in the weight of the first tap of a phase, `steps` phases from the first of each run.

    Weights have the taps phase by phase, those of the last axis innermost.
    """
    found: Expr | int = 0
    for axis, (run, step) in enumerate(zip(runs, steps, strict=True)):
        around = prod(run.first.taps for run in runs[:axis]) * prod(conv.kernel[axis + 1 :])
        found = found + (run.before + step * run.first.taps) * around
    return found


def _runs(conv: Transposed, axis: int, apart: bool) -> Iterator[PhaseRun]:
    before = 0
    found: list[OutputPhase] = []
    for phase in conv.phases(axis):
        if found and (apart or _kind(conv, axis, phase) != _kind(conv, axis, found[0])):
            yield PhaseRun(found[0], len(found), before)
            before += len(found) * found[0].taps
            found = []
        found.append(phase)
    yield PhaseRun(found[0], len(found), before)


def _kind(conv: Transposed, axis: int, phase: OutputPhase) -> tuple[int, ...]:
    return phase.taps, phase.offset, phase.back, conv.places(axis, phase)


# Skips the taps of a transposed convolution that meet only padding, if that pays.
#
# A generator's first layer makes an image from one place with 4x4 taps: 15 of 16 products meet padding.

_WORTH = 1 / 8  # smallest share of skipped products on an axis that pays for the test


def inside(
    conv: Transposed,
    phase: Sequence[OutputPhase],
    place: Sequence[Expr],
    columns: int,
    taps: Sequence[Expr],
    analyzer: Analyzer,
) -> Expr | None:
    """Return the condition that a phase's taps meet the image for a tile; None if the test does not pay.

    Parameters
    ----------
    place
        Position of the tile's first column within the phase.
    """
    found: list[Expr] = []
    for axis, (each, own, tap) in enumerate(zip(phase, place, taps, strict=True)):
        wide = columns if axis == len(phase) - 1 else 1
        if _share(conv, axis, each, wide) >= _WORTH:
            start = own + each.offset - tap * each.back
            found += [analyzer.simplify(start + (wide - 1) >= 0), analyzer.simplify(start < conv.size[axis])]
    return tirx.all(*found) if found else None


def _share(conv: Transposed, axis: int, phase: OutputPhase, columns: int) -> float:
    """Return the share of an axis's taps that meet only padding, for tiles of `columns` phase outputs."""
    starts = [
        place + phase.offset - tap * phase.back
        for place in range(0, conv.places(axis, phase), columns)
        for tap in range(phase.taps)
    ]
    beside = sum(start + columns - 1 < 0 or start >= conv.size[axis] for start in starts)
    return beside / max(1, len(starts))


def interleaved(
    read: Read, conv: Transposed, choice: InterleavedChoice, layouts: Layouts, machine: Machine
) -> tirx.PrimFunc:
    """Return the packed function of a transposed convolution, epilogue included."""

    def body(nest: Nest) -> None:
        source = layouts[read.parameter(conv.x)]
        input_lanes = machine.lanes if source is None else source.lanes
        shape = weight_shape(conv, choice, machine.lanes, input_lanes)
        _Interleaved(Emitter(nest, read, conv, layouts, shape), conv, choice, input_lanes).emit()

    return build(machine, body)


@dataclass(frozen=True)
class _Row:
    """A row of a phase: image, output blocks, and the place on all axes but the last.

    The phase is `steps` phases from the first of each run.
    """

    n: Expr
    group: Expr
    line: list[Expr]
    runs: Sequence[PhaseRun]
    steps: Sequence[Expr | int]

    @property
    def phase(self) -> list[OutputPhase]:
        """The phase, but for its remainders."""
        return [run.first for run in self.runs]


class _Interleaved:
    def __init__(
        self,
        emitter: Emitter,
        conv: Transposed,
        choice: InterleavedChoice,
        input_lanes: int,
    ) -> None:
        self.emitter, self.conv, self.choice = emitter, conv, choice
        self.nest, self.machine = emitter.nest, emitter.nest.machine
        self.input_lanes, self.lanes, self.analyzer = input_lanes, emitter.lanes, emitter.analyzer
        self.groups = int(emitter.weight.shape[0])
        self.inputs, self.shared = inputs_of(conv, choice.blocks * self.lanes, input_lanes)

    def emit(self) -> None:
        """Emit all pieces; a piece has one row of every phase."""
        conv = self.conv
        lines = [-(-out // stride) for out, stride in zip(conv.out[:-1], conv.stride, strict=False)]
        if self.machine.pieces.fine:
            for runs in runs_of(conv):
                self._tiles(runs)
            return
        rows = self.choice.order == "rows"
        space = [conv.batch, *lines, self.groups] if rows else [conv.batch, self.groups, *lines]
        with self.nest.pieces(space) as (n, *where):
            group = where.pop() if rows else where.pop(0)
            for runs in runs_of(conv):
                with self.nest.grid(_phases(runs)) as steps:
                    self._row(_Row(n, group, where, runs, steps or [0] * len(runs)))

    def _row(self, row: _Row) -> None:
        """Emit a row."""
        analyzer = self.analyzer
        counts = self._counts(row.runs)
        if not all(counts):
            return
        there = [
            place < count
            for place, count in zip(row.line, counts[:-1], strict=True)
            if not analyzer.can_prove(place < count)
        ]
        with self.nest.when(tirx.all(*there) if there else None):
            for start, count, size in tiles(counts[-1], self.choice.columns):
                with self.nest.grid([count]) as (tile,):
                    self._tile(row, analyzer.simplify(tile * size + start), size)
            self._zeros(row, [])

    def _tiles(self, runs: Sequence[PhaseRun]) -> None:
        """Emit every tile of a run's phases as a piece of its own."""
        counts = self._counts(runs)
        if not all(counts):
            return
        many = _phases(runs)
        for start, count, size in tiles(counts[-1], self.choice.columns):
            space = [*many, self.conv.batch, self.groups, *counts[:-1], count]
            with self.nest.pieces(space, group=self.choice.group) as place:
                n, group, *line, tile = place[len(many) :]
                row = _Row(n, group, line, runs, place[: len(many)] or [0] * len(runs))
                self._tile(row, self.analyzer.simplify(tile * size + start), size)
                if not start:
                    self._zeros(row, [] if count == 1 else [tirx.EQ(tile, 0)])

    def _zeros(self, row: _Row, conditions: list[Expr]) -> None:
        """Emit the zeros around a row of the output, which its first phase writes."""
        if row.phase[-1].remainder or not any(self.emitter.layout(self.emitter.read.output).halo):
            return
        if not isinstance(row.steps[-1], int):
            conditions = [*conditions, tirx.EQ(row.steps[-1], 0)]
        line = [self._output(row, axis, place) for axis, place in enumerate(row.line)]
        with self.nest.when(tirx.all(*conditions) if conditions else None):
            for block in range(self.choice.blocks):
                self.emitter.zero_halo(row.n, row.group * self.choice.blocks + block, line)

    def _counts(self, runs: Sequence[PhaseRun]) -> list[int]:
        """Return the number of outputs of each axis in a phase."""
        return [self.conv.places(axis, run.first) for axis, run in enumerate(runs)]

    def _output(self, row: _Row, axis: int, place: Expr) -> Expr:
        remainder = row.phase[axis].remainder + row.steps[axis]
        return self.analyzer.simplify(place * self.conv.stride[axis] + remainder)

    def _tile(self, row: _Row, first: Expr, columns: int) -> None:
        """Emit the outputs of a row from column `first` of its phase on."""
        lanes, blocks = self.lanes, self.choice.blocks
        instruction = self.machine.instruction(self.emitter.dtype)
        counts = [each.taps for each in row.phase]
        count = self.inputs * self.input_lanes * prod(counts)
        tile = Tile(self.nest, instruction, blocks, columns, count, self.choice.loads)
        if all(counts):
            self._sum(row, first, columns, tile)

        def index(block: Expr, column: Expr, lane: Expr) -> list[Expr]:
            places = enumerate([*row.line, first + column])
            spatial = [self._output(row, axis, place) for axis, place in places]
            return [row.n, (row.group * blocks + block) * lanes + lane, *spatial]

        loop = self.machine.operand == "memory"
        store_all(self.emitter, tile.totals, columns, index, loop=loop)

    def _sum(self, row: _Row, first: Expr, columns: int, tile: Tile) -> None:
        emitter, pads, lanes = self.emitter, self.conv.pads, self.lanes

        def source(block: Expr, taps: list[Expr], column: Expr, channel: Expr) -> Expr:
            spatial = [
                place + (each.offset + before + origin) - j * each.back
                for place, each, j, before, origin in zip(
                    [*row.line, first + column], row.phase, taps, pads, emitter.origin, strict=False
                )
            ]
            return tirx.BufferLoad(emitter.x, [row.n, block, *spatial, channel])

        inputs = tile.inputs(self.input_lanes)
        extents = [self.inputs, *(each.taps for each in row.phase)]
        of_phase = first_tap(self.conv, row.runs, row.steps)
        with tile.loops(extents, self.input_lanes) as (block, *taps):
            at_tap: Expr = tirx.IntImm("int32", 0)
            for each, j in zip(row.phase, taps, strict=True):
                at_tap = at_tap * each.taps + j
            shared = row.group // self.shared * self.inputs if self.shared else 0
            theirs = self.nest.simplify(block + shared)
            with self.nest.when(
                inside(self.conv, row.phase, [*row.line, first], columns, taps, self.analyzer)
            ):
                inputs.multiply(
                    lambda column, channel: source(theirs, taps, column, channel),
                    lambda channel, number, lane: emitter.weight[
                        row.group, block, at_tap + of_phase, channel, number * lanes + lane
                    ],
                    lambda channel: self._fetch([row.group, block + 1, at_tap + of_phase, *channel]),
                )

    def _fetch(self, place: list[Expr]) -> None:
        """Prefetch the weights of the same tap and the next input block, unless L2 holds all weights."""
        weight = self.emitter.weight
        shape = [int(extent) for extent in weight.shape]
        if not self.machine.prefetches or prod(shape) * self.machine.size(self.conv.dtype) < STAYS:
            return
        rest = shape[len(place) :]
        for start in range(0, prod(rest), LINE):
            index = [start // prod(rest[axis + 1 :]) % rest[axis] for axis in range(len(rest))]
            prefetch(weight, [*place, *index], near=True)


def _phases(runs: Sequence[PhaseRun]) -> list[int]:
    """Return the extents of loops over the phases of these runs; none if each has one phase."""
    counts = [run.count for run in runs]
    return counts if prod(counts) > 1 else []
