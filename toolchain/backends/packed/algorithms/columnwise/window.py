"""A copy of a piece's inputs, the window: zeros around and phases apart, so that vectors can be loaded."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.algorithms.columnwise.choice import ColumnwiseChoice
from toolchain.backends.packed.algorithms.columnwise.piece import window_shape
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr


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
