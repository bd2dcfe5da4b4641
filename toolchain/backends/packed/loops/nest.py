"""Emits loops, buffers and conditions of a function for a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.dot_products import DEPTH, WORD, distance_between, neighbours_of
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.expressions import bind
from toolchain.backends.packed.recognise.read import Expr, Var

# Divides axes into tiles.


def tiles(extent: int, size: int) -> list[tuple[int, int, int]]:
    """Return the full tiles of an axis, and the rest: (start, number of tiles, size)."""
    full, rest = divmod(extent, size)
    return [(0, full, size)] * bool(full) + [(full * size, 1, rest)] * bool(rest)


def shares(extent: int, size: int, unit: int = 1) -> list[tuple[int, int, int]]:
    """Return the fewest parts of at most `size` that cover an axis: about equal, each in whole units.

    Returns
    -------
    list
        (start, number of parts, size) of the larger parts, then of the smaller, which are a unit shorter.
    """
    count = -(-(extent // unit) // max(1, size // unit))
    small, large = divmod(extent // unit, count)
    start = large * (small + 1)
    parts = [(0, large, small + 1), (start, count - large, small)]
    return [(first * unit, many, each * unit) for first, many, each in parts if many]


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


# The end of a tile: computes outputs from its sums.
#
# If an epilogue such as SiLU (the polynomial of exp, a division) is unrolled for every vector, it is most
# of the code that TVM and LLVM compile. A long epilogue is therefore a loop over sums in memory: a 3x3
# layer by winograd then compiles in a quarter of the time, and is as fast.

# Largest number of vectors per iteration; they share the polynomials' coefficients.
_AT_ONCE = 8


class Storing(Protocol):
    """The writer of outputs: `Emitter`, or an algorithm's own for plain values."""

    @property
    def nest(self) -> Nest: ...

    @property
    def lanes(self) -> int: ...

    @property
    def analyzer(self) -> Analyzer: ...

    @property
    def long(self) -> bool:
        """Whether the epilogue (operators after the sum) has a function that becomes long code."""

    def store(self, total: Expr, index: Sequence[Expr]) -> None:
        """Emit the output at a logical index, given the contraction's sum there."""


def store_all(
    emitter: Storing,
    totals: Sequence[tirx.Buffer],
    vectors: int,
    index: Callable[[Expr, Expr, Var], list[Expr]],
    *,
    loop: bool = True,
) -> None:
    """Emit the outputs of a tile.

    Parameters
    ----------
    totals
        Sums: one buffer of `vectors` vectors for each output block.
    index
        Returns the logical index of an output from block, vector and lane.
    loop
        Whether a long epilogue may be a loop.
    """
    nest, lanes, analyzer = emitter.nest, emitter.lanes, emitter.analyzer
    if not (loop and emitter.long):
        for number, total in enumerate(totals):
            with nest.unroll(vectors) as vector, nest.vector(lanes) as lane:
                own = tirx.IntImm("int32", number)
                emitter.store(total[vector * lanes + lane], index(own, vector, lane))
        return
    # A separate buffer: a buffer that is read at a variable index would not stay in registers.
    waiting = nest.local((len(totals) * vectors * lanes,), str(totals[0].dtype))
    for number, total in enumerate(totals):
        with nest.unroll(vectors) as vector, nest.vector(lanes) as lane:
            kept = total[vector * lanes + lane]
            ir.buffer_store(waiting, kept, [(vector + number * vectors) * lanes + lane])
    at_once = max(size for size in range(1, _AT_ONCE + 1) if vectors % size == 0)
    with (
        nest.grid([len(totals), vectors // at_once]) as (block, turn),
        nest.unroll(at_once) as each,
        nest.vector(lanes) as lane,
    ):
        place = analyzer.simplify(turn * at_once + each)
        emitter.store(waiting[(block * vectors + place) * lanes + lane], index(block, place, lane))


# Inputs that are multiplied in pairs: in registers, four bytes as one word.

_VECTOR = 4  # words
Source = Callable[[Expr, Expr], Expr]


class Words:
    """Four inputs for each step and each column of a tile.

    Parameters
    ----------
    steps
        Words of a column.
    """

    def __init__(self, nest: Nest, columns: int, steps: int) -> None:
        self.nest, self.columns, self.steps = nest, columns, steps
        self.kept = nest.local((columns * steps * _VECTOR,), WORD)
        self.places: list[int] = []

    def load(self, source: Source) -> None:
        """Load all words, those near to each other in memory by one load.

        An instruction takes its factor from any lane of a vector; so columns of a stride of 2 or 3 need not
        be moved together, and nothing beyond the last of them is read.

        Parameters
        ----------
        source
            Returns the load of an input, given column and channel.
        """
        zero = tirx.const(0, "int32")
        words = []
        for number in range(self.columns * self.steps):
            column, step = divmod(number, self.steps)
            words.append(neighbours_of(source(zero + column, zero + step * DEPTH), 1))
        known = [self._distance(words[0], word) for word in words]
        offsets = [offset for offset in known if offset is not None]
        together = len(offsets) == len(known) and offsets == sorted(set(offsets))
        *place, last = words[0].indices
        self.places, end, number = [], 0, 0
        for start, size, used in vectors(offsets) if together else [(0, 1, 1)] * len(words):
            load = words[number]
            if size > 1:
                load = tirx.BufferLoad(words[0].source, [*place, last + start * DEPTH])
            value = tirx.reinterpret(
                WORD if size == 1 else f"{WORD}x{size}", neighbours_of(load, size * DEPTH)
            )
            ir.buffer_store(self.kept, value, [tirx.Ramp(end, 1, size) if size > 1 else end])
            for each in range(number, number + used):
                self.places.append(end + (offsets[each] - start if size > 1 else 0))
            end, number = end + size, number + used

    def word(self, column: int, step: int = 0) -> Expr:
        """Return four inputs of a column, which have been loaded."""
        return self.kept[self.places[column * self.steps + step]]

    def _distance(self, one: TensorLoad, other: TensorLoad) -> int | None:
        """Return how many words behind one load another reads; None if that is not known."""
        known = self.nest.simplify(distance_between(one, other))
        if not isinstance(known, tirx.IntImm) or int(known) % DEPTH:
            return None
        return int(known) // DEPTH


def vectors(offsets: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the vectors that words are loaded in: (first offset, words of the vector, number that is used).

    Parameters
    ----------
    offsets
        Offset of each word that is used, ascending from 0. A vector reads nothing outside of them.
    """
    last, found, number = offsets[-1], [], 0
    while number < len(offsets):
        start = min(offsets[number], last - _VECTOR + 1) if last >= _VECTOR - 1 else offsets[number]
        size = min(_VECTOR, last - start + 1)
        size = 2 if size == _VECTOR - 1 else size
        used = sum(1 for offset in offsets[number:] if offset < start + size)
        if used == 1:
            start, size = offsets[number], 1
        found.append((start, size, used))
        number += used
    return found
