"""Inputs that are multiplied in pairs: in registers, four bytes as one word."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.dot_products import DEPTH, WORD, distance_between, neighbours_of
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.read import Expr

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
