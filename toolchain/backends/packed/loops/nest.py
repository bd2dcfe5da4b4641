"""Emits loops, buffers and conditions of a function for a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.cut import tiles
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.expressions import bind
from toolchain.backends.packed.recognise.read import Expr, Var


class Nest:
    """The loop nest of a function under construction.

    The analyzer knows the bounds of every loop variable.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine, self.analyzer = machine, Analyzer()
        self._within = False  # inside a piece

    @contextmanager
    def pieces(
        self, space: Sequence[int], *, small: bool = False, group: Sequence[int] = ()
    ) -> Iterator[list[Expr]]:
        """Emit the machine's loop over the places of a space, the last axis innermost; yield the place.

        Parameters
        ----------
        small
            Whether the work is too small for several cores.
        group
            Pieces that run together along the last axes, the last axis first; empty lets the machine decide.
        """
        if self._within and self.machine.pieces.fine:  # a device's work items have no pieces of their own
            with self.grid(space) as place:
                yield list(place)
            return
        self._within = True
        with self.machine.pieces.over(space, self.analyzer, small=small, group=group) as place:
            yield place
        self._within = False

    @contextmanager
    def grid(self, extents: Sequence[int], *, unrolled: bool = False) -> Iterator[list[Var]]:
        """Emit loops around the following code; none for no extents."""
        if not extents:
            yield []
        elif unrolled:
            with self.unroll(extents[0]) as first, self.grid(extents[1:], unrolled=True) as rest:
                yield [first, *rest]
        else:
            with ir.grid(*extents) as found:
                made = [found] if isinstance(found, tirx.Var) else list(found)
                yield [bind(self.analyzer, var, extent) for var, extent in zip(made, extents, strict=True)]

    @contextmanager
    def serial(self, count: int, actual: Expr | None = None, *, first: int = 0) -> Iterator[Var]:
        """Emit a loop from `first` to `count`, or to the run-time value `actual` (at most `count`)."""
        with ir.serial(first, count if actual is None else actual) as step:
            yield bind(self.analyzer, step, count, first)

    @contextmanager
    def unroll(self, count: int) -> Iterator[Var]:
        """Emit an unrolled loop."""
        with ir.unroll(0, count) as step:
            yield bind(self.analyzer, step, count)

    @contextmanager
    def vector(self, count: int) -> Iterator[Var]:
        """Emit a vectorised loop, whose variable is the lane."""
        with ir.vectorized(0, count) as lane:
            yield bind(self.analyzer, lane, count)

    def vectors(self, extent: int, lanes: int | None = None) -> list[tuple[int, int, int]]:
        """Return full vectors and rest of an axis, (start, count, size), in widths of the machine."""
        lanes, widths = self.machine.lanes if lanes is None else lanes, self.machine.widths
        if widths is None:
            return tiles(extent, lanes)
        found, start = [], 0
        for size in sorted({width for width in (*widths, 1) if width <= lanes}, reverse=True):
            if many := (extent - start) // size:
                found.append((start, many, size))
                start += many * size
        return found

    def fill(self, buffer: tirx.Buffer, count: int, value: Expr) -> None:
        """Emit stores of one value to the first `count` places of a buffer with one axis."""
        widths = self.machine.widths
        whole = widths is None or count in widths
        for start, many, size in [(0, 1, count)] if whole else self.vectors(count):
            for first in range(start, start + many * size, size):
                with self.vector(size) as lane:
                    ir.buffer_store(buffer, value, [first + lane])

    def load(self, into: tirx.Buffer, start: int, count: int, value: Callable[[Expr], Expr]) -> None:
        """Emit the load of a vector whose elements are read one by one.

        If vectors are types of their own, an array that is stored as a vector and read by element would not
        stay in registers.

        Parameters
        ----------
        value
            Returns the loaded value from the lane.
        """
        through = self.machine.widths is not None and count > 1
        first = 0 if through else start
        vector = self.local((count,), str(into.dtype)) if through else into
        with self.vector(count) as lane:
            ir.buffer_store(vector, value(lane), [first + lane])
        for lane_of in range(count if through else 0):
            whole = tirx.BufferLoad(vector, [tirx.Ramp(0, 1, count)])
            ir.buffer_store(into, tirx.Shuffle([whole], [lane_of]), [start + lane_of])

    @contextmanager
    def when(self, condition: Expr | None) -> Iterator[None]:
        """Emit the following code under a condition; None for no condition."""
        if condition is None:
            yield
        else:
            with ir.If(condition), ir.Then():
                yield

    @contextmanager
    def where(self, condition: Expr) -> Iterator[bool]:
        """Emit the following code under a condition, unless it is known; yield whether it can be true."""
        known = self.analyzer.simplify(condition)
        if isinstance(known, tirx.IntImm):
            yield bool(known)
        else:
            with ir.If(known), ir.Then():
                yield True

    def local(self, shape: Sequence[int], dtype: str) -> tirx.Buffer:
        """Return a buffer that is private to each piece."""
        return ir.alloc_buffer(tuple(shape), dtype, scope=self.machine.pieces.scope)

    def shared(self, shape: Sequence[int], dtype: str) -> tirx.Buffer:
        """Return a buffer that all pieces share."""
        return ir.alloc_buffer(tuple(shape), dtype)

    def simplify(self, value: Expr) -> Expr:
        """Return an expression, simplified with the known bounds of the loop variables."""
        return self.analyzer.simplify(value)
