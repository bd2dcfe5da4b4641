"""Finds races: elements that two stages use without a token that orders a write and a read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolchain.vta.isa.instructions import PipelineStage

Known = tuple[int, int, int]
"""Numbers of instructions of each stage that have certainly ended."""


class Executed(NamedTuple):
    """An instruction in a run.

    Attributes
    ----------
    at
        Its index in the program.
    number
        Its number in its stage, counted from 1.
    known
        Numbers of instructions that have certainly ended when it begins.
    """

    at: int
    number: int
    known: Known


class Race(NamedTuple):
    """An element, and the number of the other stage's instruction that uses it at the same time."""

    element: int
    other: int


class Shared:
    """Elements that one stage writes and another reads, with the last instructions that did so."""

    def __init__(self, size: int, writer: PipelineStage, reader: PipelineStage) -> None:
        self.writer, self.reader = writer, reader
        self.written = np.zeros(size, dtype=np.int32)
        self._read = np.zeros(size, dtype=np.int32)

    def write(self, where: slice | npt.NDArray[Any], turn: Executed) -> Race | None:
        """Note a write; return an element that the reader may read at the same time, or None."""
        race = _later(self._read, where, turn.known[self.reader])
        self.written[where] = turn.number
        return race

    def read(self, where: slice | npt.NDArray[Any], turn: Executed) -> Race | None:
        """Note a read; return an element that the writer may write at the same time, or None."""
        race = _later(self.written, where, turn.known[self.writer])
        self._read[where] = turn.number
        return race

    def undefined(self, where: slice | npt.NDArray[Any]) -> int | None:
        """Return the first of these elements that was never written, or None."""
        empty = np.flatnonzero(self.written[where] == 0)
        return None if not empty.size else _element(where, int(empty[0]))


def _later(numbers: npt.NDArray[np.int32], where: slice | npt.NDArray[Any], ended: int) -> Race | None:
    late = np.flatnonzero(numbers[where] > ended)
    if not late.size:
        return None
    element = _element(where, int(late[0]))
    return Race(element, int(numbers[element]))


def _element(where: slice | npt.NDArray[Any], place: int) -> int:
    return int(where.start) + place if isinstance(where, slice) else int(where[place])
