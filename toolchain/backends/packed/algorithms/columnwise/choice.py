"""The choice of the algorithm `columnwise`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Choice, knob
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr


@dataclass(frozen=True)
class ColumnwiseChoice(Choice):
    """A register tile of sums.

    Attributes
    ----------
    channels, vectors
        Size of a tile: output channels, and vectors of neighbouring columns.
    rows
        Output rows of one parallel piece of work.
    """

    algorithm = "columnwise"
    channels: int = knob("blocks", 1)
    vectors: int = knob("columns", 1)
    rows: int = 1


# Order of a row's taps by the input phase that they read, and the weight packed in that order.
#
# With stride s, output o meets input s * o + t at tap t. The inputs with equal remainder by s, a phase, are
# neighbours in the window: there tap t = s * j + phase meets place o + j.


@dataclass(frozen=True)
class Taps:
    """Taps of a row: `each` taps for each of `phases` phases, from phase `first`; stored from `start`."""

    first: int
    phases: int
    each: int
    start: int


def taps_of(conv: Convolution) -> list[Taps]:
    """Return the taps of a row by phase; the first phases may have one tap more than the others."""
    kernel, stride = conv.kernel[-1], conv.stride[-1]
    few, more = divmod(kernel, stride)
    found = [Taps(0, more, few + 1, 0), Taps(more, stride - more, few, more * (few + 1))]
    return [each for each in found if each.phases and each.each]


def reach(conv: Convolution) -> int:
    """Return how many places beyond an output's own place its taps read in a phase."""
    return (conv.kernel[-1] - 1) * conv.dilation[-1] // conv.stride[-1]


def weight_shape(conv: Convolution, choice: ColumnwiseChoice) -> tuple[int, ...]:
    """Return (co / C, ci of a group, *kernel's rows, taps of a row by phase * C), C channels per tile."""
    *above, taps = conv.kernel
    return (conv.co // choice.channels, conv.ci // conv.groups, *above, taps * choice.channels)


def pack_weight(weight: Array, conv: Convolution, choice: ColumnwiseChoice) -> Array:
    """Return a weight (co, ci / groups, *kernel), packed in the order in which the function reads it."""
    stride = conv.stride[-1]
    order = [tap for phase in range(stride) for tap in range(phase, conv.kernel[-1], stride)]
    sorted_taps = conv.reached(weight)[..., order]
    tiles = sorted_taps.reshape(-1, choice.channels, prod(sorted_taps.shape[1:]))
    return tiles.transpose(0, 2, 1).reshape(weight_shape(conv, choice))


# The size of a parallel piece of a columnwise convolution: its columns, and its window of the input.

PIECES = 4
"""Pieces per thread, so that a busy core delays at most a quarter of its share."""


def needs_window(conv: Convolution) -> bool:
    """Return whether the input must be copied first: because of padding, or of a stride."""
    return any(conv.pads) or conv.stride[-1] > 1


def columns_of_piece(conv: Convolution, choice: ColumnwiseChoice, machine: Machine) -> int:
    """Return the columns of a piece: a whole row, or parts of it if threads would have no work otherwise.

    A part is a whole number of full tiles.
    """
    columns = conv.out[-1]
    unit = choice.vectors * machine.lanes
    rows = choice.rows if len(conv.out) > 1 else 1
    pieces = conv.batch * prod(conv.out[:-1]) // rows
    parts = min(-(-PIECES * machine.threads // pieces), columns // unit)
    if parts <= 1:
        return columns
    return -(-columns // (parts * unit)) * unit


def window_shape(
    conv: Convolution, choice: ColumnwiseChoice, machine: Machine, columns: int
) -> tuple[int, ...]:
    """Return the shape of a piece's window (ci, planes, input rows, phases, places) for `columns` columns."""
    above = [(taps - 1) * step + 1 for taps, step in zip(conv.kernel, conv.dilation, strict=True)][:-1]
    if above:
        above[-1] += (choice.rows - 1) * conv.stride[-2]
    # Zeros after the image are stored as full vectors, which may go beyond the last place.
    return (conv.ci, *above, conv.stride[-1], columns + reach(conv) + machine.lanes)


def bytes_of_window(conv: Convolution, choice: ColumnwiseChoice, machine: Machine) -> int:
    """Return the size of a piece's window in bytes."""
    columns = columns_of_piece(conv, choice, machine)
    return machine.size(conv.dtype) * prod(window_shape(conv, choice, machine, columns))


# A copy of a piece's inputs, the window: zeros around and phases apart, so that vectors can be loaded.


class InputWindow:
    """A copy of the inputs for some rows and columns of outputs.

    Parameters
    ----------
    x
        The network's input.
    columns
        Number of output columns.
    """

    def __init__(
        self, nest: Nest, conv: Convolution, choice: ColumnwiseChoice, x: tirx.Buffer, columns: int
    ) -> None:
        self.nest, self.conv, self.x, self.lanes = nest, conv, x, nest.machine.lanes
        shape = window_shape(conv, choice, nest.machine, columns)
        self.places = shape[-1] - self.lanes
        self.buffer = nest.local(shape, str(x.dtype))

    def fill(self, n: Expr, row: Sequence[Expr], first: Expr) -> None:
        """Copy the inputs of the outputs from row `row` and column `first` on."""
        conv, nest = self.conv, self.nest
        size = [int(extent) for extent in self.buffer.shape[:-2]]
        with nest.grid(size) as (channel, *above):
            lines = [
                nest.simplify(place * stride + step - pad)
                for place, stride, step, pad in zip(row, conv.stride, above, conv.pads, strict=False)
            ]
            inside = [
                condition
                for line, extent in zip(lines, conv.size, strict=False)
                for condition in (line >= 0, line < extent)
                if not nest.analyzer.can_prove(condition)
            ]
            here, there = [channel, *above], [n, channel, *lines]
            if not inside:
                self._line(here, there, first)
                return
            with ir.If(tirx.all(*inside)):
                with ir.Then():
                    self._line(here, there, first)
                with ir.Else():
                    for phase in range(conv.stride[-1]):
                        self._zeros([*here, phase], tirx.const(0, "int32"), self.places)

    def _line(self, here: Sequence[Expr], there: Sequence[Expr], first: Expr) -> None:
        """Copy one line of the input, with zeros before and after it."""
        conv, nest, lanes = self.conv, self.nest, self.lanes
        stride, pad, size = conv.stride[-1], conv.pads[len(conv.out) - 1], conv.size[-1]
        # At these places the inputs of all phases are inside the image.
        begin, end = (
            nest.simplify(tirx.max(tirx.min(place - first, self.places), 0))
            for place in (-(-pad // stride), (size + pad) // stride)
        )
        base = nest.simplify(first * stride - pad)
        for phase in range(stride):
            self._zeros([*here, phase], tirx.const(0, "int32"), begin)
            self._zeros([*here, phase], end, self.places)
        with nest.where(end - begin >= lanes) as may:
            if may:
                count = nest.simplify((end - begin) // lanes)
                with nest.serial(self.places // lanes, count) as step:
                    self._vectors(here, there, nest.simplify(begin + step * lanes), base)
                self._vectors(here, there, nest.simplify(end - lanes), base)
        with nest.where(end - begin < lanes) as may:
            if may:
                with nest.serial(lanes, tirx.max(end - begin, 0)) as step:
                    self._each(here, there, nest.simplify(begin + step), base)
        if stride > 1:
            with nest.where(begin > 0) as may:
                if may:
                    self._each(here, there, nest.simplify(begin - 1), base)
            with nest.where(end < self.places) as may:
                if may:
                    self._each(here, there, end, base)

    def _zeros(self, here: Sequence[Expr | int], begin: Expr, end: Expr | int) -> None:
        """Write zeros from `begin` to `end`; the last vector may go beyond."""
        nest, lanes = self.nest, self.lanes
        count = nest.simplify((end - begin + (lanes - 1)) // lanes)
        with nest.where(count > 0) as may:
            if may:
                with nest.serial(self.places // lanes + 1, count) as step, nest.vector(lanes) as lane:
                    zero = tirx.const(0, str(self.buffer.dtype))
                    ir.buffer_store(self.buffer, zero, [*here, begin + step * lanes + lane])

    def _vectors(self, here: Sequence[Expr], there: Sequence[Expr], place: Expr, base: Expr) -> None:
        """Copy a vector of each phase."""
        lanes, stride = self.lanes, self.conv.stride[-1]
        start = self.nest.simplify(base + place * stride)
        read = [
            tirx.BufferLoad(self.x, [*there, tirx.Ramp(start + number * lanes, 1, lanes)])
            for number in range(stride)
        ]
        for phase in range(stride):
            order = [lane * stride + phase for lane in range(lanes)]
            value = read[0] if stride == 1 else tirx.Shuffle(read, order)
            ir.buffer_store(self.buffer, value, [*here, phase, tirx.Ramp(place, 1, lanes)])

    def _each(self, here: Sequence[Expr], there: Sequence[Expr], place: Expr, base: Expr) -> None:
        """Copy one number of each phase; zero outside the image."""
        size = self.conv.size[-1]
        for phase in range(self.conv.stride[-1]):
            column = self.nest.simplify(base + place * self.conv.stride[-1] + phase)
            value = tirx.if_then_else(
                tirx.all(column >= 0, column < size),
                tirx.BufferLoad(self.x, [*there, column]),
                tirx.const(0, str(self.x.dtype)),
            )
            ir.buffer_store(self.buffer, value, [*here, phase, place])
