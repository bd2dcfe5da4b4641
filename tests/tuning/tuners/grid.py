"""An artificial space: what tuners need of a task, without TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, cast

from toolchain.errors import ToolchainError
from toolchain.records.store import Usable, anything
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import FiniteSpace, Result


class Cell(NamedTuple):
    """A tile, an order and whether loops are unrolled."""

    tile: int
    other: int
    order: str
    unrolled: bool


class Loop(Task):
    """A task of no meaning."""

    @property
    def definition(self) -> str:
        return f"a loop {self.shapes}"


TASK = Loop("00112233", "loop", 1, 1, ((8, 8),))


class Grid(FiniteSpace[Cell]):
    """Tiles of two axes, where their product is no more than `most`."""

    kinds: tuple[str, ...] = ("cell",)
    excluded = ""
    points: list[Cell] = []  # noqa: RUF012

    def __init__(self, tiles: int = 4, most: int = 8) -> None:
        self.usable: Usable = anything
        self.allowed: Usable = anything
        sizes = range(1, tiles + 1)
        cells = [Cell(*knobs) for knobs in product(sizes, sizes, ("rows", "columns"), (False, True))]
        self.points = [cell for cell in cells if cell.tile * cell.other <= most]

    def decisions(self, point: Cell) -> Mapping[str, Any]:
        return point._asdict()

    def legal(self, point: Cell) -> bool:
        return point in self.points

    def features(self, point: Cell) -> Sequence[float]:
        return [point.tile, point.other, point.tile * point.other, point.order == "rows", point.unrolled]

    def foreign_features(self, entry: Entry, definition: str) -> Sequence[float]:
        return self.features(self.read(entry, definition))

    def adapted(self, entry: Entry, definition: str) -> Cell:
        return self.read(entry, definition)

    def rule(self, point: Cell) -> str:
        return point.order

    def entry(self, point: Cell) -> Entry:
        return Entry("cell", repr(tuple(point)), repr(tuple(point)))

    def read(self, entry: Entry, definition: str) -> Cell:
        found = next((point for point in self.points if self.entry(point) == entry), None)
        if found is None:
            raise ToolchainError(f"no cell: {entry.payload} of {definition}")
        return found

    def candidate(self, point: Cell) -> Candidate:
        raise NotImplementedError(point)


class Endless(Grid):
    """The same cells, not to be counted."""

    size = cast(Any, None)


def measured(point: Cell, most: int = 1 << 30) -> Result:
    """Return what a cell takes: less for larger tiles, until they do not fit."""
    if point.tile * point.other > most:
        return Result(failure="runtime", message="it does not fit")
    return Result(((20.0 if point.order == "rows" else 30.0) / (point.tile * point.other + point.unrolled),))
