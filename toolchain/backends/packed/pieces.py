"""How the independent pieces of a function run: the main difference between kinds of machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from typing import Protocol

from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.recognise.expressions import bind
from toolchain.backends.packed.recognise.read import Expr

# The size of a work group along each axis of a grid.

AXES = 3
"""Axes of a grid: OpenCL's minimum CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, and TVM's maximum."""

_EIGHTHS = 8  # idle items are counted in eighths of all; less matters less than what the others read
_FULL = 3 / 4  # share of the allowed items from which on a group counts as full


def group_of(extents: Sequence[int], most: int, wanted: Sequence[int] = ()) -> list[int]:
    """Return the number of work items of a group along each axis.

    Of the groups with the fewest idle items, prefer nearly full ones, and of those the widest along the first
    axes: then values that differ only along the last axis, weights, are read once for the whole group. For a
    convolution of 512 to 512 channels on 7x7 in tiles of 7 columns, a group of 64 channels would read 9 MB of
    weights again for each row.

    Parameters
    ----------
    extents
        Work items along each axis.
    most
        Largest number of work items of a group.
    wanted
        Requested group, limited to the extents; empty to choose one.
    """
    if wanted:
        sizes = [*wanted, *[1] * len(extents)][: len(extents)]
        return [min(size, extent) for size, extent in zip(sizes, extents, strict=True)]

    def worth(sizes: tuple[int, ...]) -> tuple[int, float, tuple[int, ...]]:
        launched = prod(-(-extent // size) * size for extent, size in zip(extents, sizes, strict=True))
        idle = round(_EIGHTHS * (launched / prod(extents) - 1))
        return -idle, min(prod(sizes), _FULL * most), sizes

    best = max(_groups(extents, most), key=worth)
    return list(best)


def _groups(extents: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """Yield the groups to compare: a size that is not a power of two must divide its axis."""
    if not extents:
        yield ()
        return
    first, *rest = extents
    for size in range(1, min(first, most) + 1):
        if first % size == 0 or size & (size - 1) == 0:
            for others in _groups(rest, most // size):
                yield (size, *others)


ITEMS = 64
"""Work items of a group, unless a choice or a device asks for others.

Up to so many a Mali-T860 gives 16 registers each (docs/decisions/0042).
"""

MOST_GROUPS = 65535
"""Most groups along an axis of a grid but the first (CUDA C++ Programming Guide)."""


class Pieces(Protocol):
    """Emits the loop or grid that runs the pieces.

    Attributes
    ----------
    scope
        TVM's memory scope of values private to a piece: sums, inputs of a tile, rows.
    fine
        Whether a piece is one tile or one vector; otherwise it is work for a core, with many of them.
    """

    @property
    def scope(self) -> str: ...

    @property
    def fine(self) -> bool: ...

    def over(
        self, space: Sequence[int], analyzer: Analyzer, *, small: bool, group: Sequence[int]
    ) -> AbstractContextManager[list[Expr]]:
        """Emit code that runs what follows for every place of a space; yield the place.

        Parameters
        ----------
        analyzer
            Gets the bounds of the variables.
        small
            Whether all pieces together are less work than waking other cores takes.
        group
            Pieces that run together along the last axes, the last axis first; empty lets the machine decide.
        """


@dataclass(frozen=True)
class ParallelLoop:
    """Iterations of a parallel loop on CPU cores; LLVM keeps a piece's private values in registers."""

    scope: str = "global"
    fine: bool = False

    @contextmanager
    def over(
        self, space: Sequence[int], analyzer: Analyzer, *, small: bool, group: Sequence[int]
    ) -> Iterator[list[Expr]]:
        """Emit the loop."""
        del group
        with (ir.serial if small else ir.parallel)(0, prod(space)) as piece:
            yield places(bind(analyzer, piece, prod(space)), space, analyzer)


@dataclass(frozen=True)
class WorkItems:
    """Work items of a device: one for each piece, in a grid of work groups.

    The last axes of the space are the axes of the grid, in reverse order; all axes before them are merged
    with the grid's third.

    Attributes
    ----------
    most
        Largest number of work items in a group.
    """

    most: int
    scope: str = "local"
    fine: bool = True

    @contextmanager
    def over(
        self, space: Sequence[int], analyzer: Analyzer, *, small: bool, group: Sequence[int]
    ) -> Iterator[list[Expr]]:
        """Emit the grid; items of a group that exceed the space do nothing."""
        del small
        space = space or [1]
        kept = list(space)[-(AXES - 1) :] if len(space) > AXES else list(space)
        before = list(space)[: len(space) - len(kept)]
        extents = [*reversed(kept), *([prod(before)] if before else [])]
        sizes = group_of(extents, self.most, group)
        counts = _counts(extents, sizes)
        if any(count > MOST_GROUPS for count in counts[1:]):  # then all along the first axis
            kept, before, extents = [], list(space), [prod(space)]
            sizes = group_of(extents, self.most)
            counts = _counts(extents, sizes)
        with ExitStack() as stack:
            groups = [
                bind(analyzer, stack.enter_context(ir.launch_thread(f"blockIdx.{axis}", count)), count)
                for axis, count in zip("xyz", counts, strict=False)
            ]
            items = [
                bind(analyzer, stack.enter_context(ir.launch_thread(f"threadIdx.{axis}", size)), size)
                for axis, size in zip("xyz", sizes, strict=False)
            ]
            at = [
                analyzer.simplify(one * size + item)
                for one, size, item in zip(groups, sizes, items, strict=True)
            ]
            inside = [
                place < extent
                for place, extent, size in zip(at, extents, sizes, strict=True)
                if extent % size
            ]
            if inside:
                condition = tirx.all(*inside)
                stack.enter_context(ir.If(condition))
                stack.enter_context(ir.Then())
                stack.enter_context(analyzer.constraint_scope(condition))
            rest = places(at[len(kept)], before, analyzer) if before else []
            yield [*rest, *reversed(at[: len(kept)])]


def _counts(extents: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Return the number of groups along each axis."""
    return [-(-extent // size) for extent, size in zip(extents, sizes, strict=True)]


def places(index: Expr, extents: Sequence[int], analyzer: Analyzer) -> list[Expr]:
    """Return the place on every axis of element `index` of a space in row-major order."""
    found: list[Expr] = []
    for extent in reversed(extents):
        found.insert(0, analyzer.simplify(index % extent))
        index = analyzer.simplify(index // extent)
    return found
