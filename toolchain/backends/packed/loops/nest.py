"""Loops, buffers and conditions of one function, for a machine."""

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
    """What a function under construction is written with.

    Of every variable that it makes the analyzer knows the bounds.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine, self.analyzer = machine, Analyzer()
        self._within = False  # a piece

    @contextmanager
    def pieces(
        self, space: Sequence[int], *, small: bool = False, group: Sequence[int] = ()
    ) -> Iterator[list[Expr]]:
        """Emit the machine's loop over the places of a space, the last axis the fastest; yields the place.

        Parameters
        ----------
        small
            There is too little to do for several cores.
        group
            How many pieces run together along the last axes, the last one first; empty: as it suits.
        """
        if self._within and self.machine.pieces.fine:  # items of a device have no pieces of their own
            with self.grid(space) as place:
                yield list(place)
            return
        self._within = True
        with self.machine.pieces.over(space, self.analyzer, small=small, group=group) as place:
            yield place
        self._within = False

    @contextmanager
    def grid(self, extents: Sequence[int], *, unrolled: bool = False) -> Iterator[list[Var]]:
        """Emit loops around what follows, none for no extents."""
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
        """Emit a loop of turns from `first` up to `count`, or to `actual`: no more, known when it runs."""
        with ir.serial(first, count if actual is None else actual) as step:
            yield bind(self.analyzer, step, count, first)

    @contextmanager
    def unroll(self, count: int) -> Iterator[Var]:
        """Emit a loop that is written out."""
        with ir.unroll(0, count) as step:
            yield bind(self.analyzer, step, count)

    @contextmanager
    def vector(self, count: int) -> Iterator[Var]:
        """Emit a loop whose turns are the lanes of a vector."""
        with ir.vectorized(0, count) as lane:
            yield bind(self.analyzer, lane, count)

    def vectors(self, extent: int, lanes: int | None = None) -> list[tuple[int, int, int]]:
        """Cut an axis into full vectors and what is left: (start, how many, size), sizes that there are."""
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
        """Emit stores of one value to the first `count` places of a buffer of one axis."""
        widths = self.machine.widths
        whole = widths is None or count in widths
        for start, many, size in [(0, 1, count)] if whole else self.vectors(count):
            for first in range(start, start + many * size, size):
                with self.vector(size) as lane:
                    ir.buffer_store(buffer, value, [first + lane])

    def load(self, into: tirx.Buffer, start: int, count: int, value: Callable[[Expr], Expr]) -> None:
        """Emit the load of a vector whose numbers are read one by one.

        Where vectors are types of their own, an array that is written as a vector and read number by number
        would be kept out of registers.

        Parameters
        ----------
        value
            Lane -> what is loaded.
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
        """Emit what follows under a condition; None: always."""
        if condition is None:
            yield
        else:
            with ir.If(condition), ir.Then():
                yield

    @contextmanager
    def where(self, condition: Expr) -> Iterator[bool]:
        """Emit what follows under a condition, if it is not known; yields whether it may hold."""
        known = self.analyzer.simplify(condition)
        if isinstance(known, tirx.IntImm):
            yield bool(known)
        else:
            with ir.If(known), ir.Then():
                yield True

    def local(self, shape: Sequence[int], dtype: str) -> tirx.Buffer:
        """Return a buffer that each piece has for itself."""
        return ir.alloc_buffer(tuple(shape), dtype, scope=self.machine.pieces.scope)

    def shared(self, shape: Sequence[int], dtype: str) -> tirx.Buffer:
        """Return a buffer that all pieces write or read."""
        return ir.alloc_buffer(tuple(shape), dtype)

    def simplify(self, value: Expr) -> Expr:
        """Return an expression, simplified by what is known of the loops' variables."""
        return self.analyzer.simplify(value)
