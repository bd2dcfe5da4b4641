"""Rows of softmax or layer norm on a GPU: the work items of a group share a row, in all its stages.

An item computes every n-th vector of a row. Partial results of a reduction meet (`loops.sharing`), and each
item keeps the total. Values of a row that a later stage reads lie in shared memory, or in memory if the row
is too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from math import prod

import numpy as np
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.work_group import Sharers, Sharing, shared_memory, sharers, sharing_of
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import places
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, Var, shape_of
from toolchain.backends.packed.stages.rowwise import RowMemory, RowStage, along, bound

_MET = 2 << 10  # bytes of shared memory where partial results meet, at most


class _Memory(RowMemory):
    """Storage of a row's values, by the items that share it."""

    def __init__(self, nest: Nest, read: Read, rows: int, kept: Sequence[Stage]) -> None:
        super().__init__(nest, read, [None] * len(read.params), rows)
        self._made: list[tuple[tirx.Buffer, tirx.Buffer, bool]] = []  # whether it has all rows
        self.values = [
            stage.buffer
            for stage in kept
            if read.place(stage.buffer) is None and prod(shape_of(stage.buffer)[rows:]) > 1
        ]

    @property
    def size(self) -> int:
        """Bytes of a row's values between stages."""
        return sum(
            prod(shape_of(buffer)[self.rows :]) * np.dtype(str(buffer.dtype)).itemsize
            for buffer in self.values
        )

    def fits(self, sharing: Sharing) -> bool:
        """Return whether the values of a group's rows fit shared memory."""
        return self.size * sharing.rows + _MET <= self.nest.machine.shared

    def spread(self) -> None:
        """Allocate memory for the values of all rows; outside of the groups."""
        for buffer in self.values:
            self._made.append((buffer, self.nest.shared(shape_of(buffer), str(buffer.dtype)), True))

    def begin(self, items: Sharers) -> None:
        """Allocate shared memory for the values of a group's rows."""
        self.items = items
        for buffer in self.values:
            if self._of(buffer) is None:
                size = items.sharing.rows * prod(shape_of(buffer)[self.rows :])
                self._made.append((buffer, shared_memory(size, str(buffer.dtype)), False))

    def room(self, buffer: tirx.Buffer) -> tuple[tirx.Buffer, bool]:
        """Return the buffer of a value, and whether it has all rows; a number is kept by each item."""
        found = self.where(buffer)
        if found is not None:
            return found[0], True
        return self._of(buffer) or (self.number(buffer), False)

    def number(self, buffer: tirx.Buffer) -> tirx.Buffer:
        """Return a new buffer for an item's copy of a number of its row."""
        made = self.nest.local((1,), str(buffer.dtype))
        self._made.append((buffer, made, False))
        return made

    def target(self, buffer: tirx.Buffer, row: Sequence[Expr], place: Sequence[Expr]) -> TensorLoad:
        """Return the load of a stored value at a place of a row."""
        new, whole = self.room(buffer)
        if whole:
            return tirx.BufferLoad(new, [*row, *place])
        at: Expr = self.items.own
        for extent, index in zip(shape_of(buffer)[self.rows :], place, strict=True):
            at = at * extent + index
        return tirx.BufferLoad(new, [self.nest.simplify(at)])

    def load(self, buffer: tirx.Buffer, index: list[Expr], analyzer: Analyzer) -> Expr | None:
        """Return an element of a value; None if the value is not stored."""
        if any(own.same_as(buffer) for own in self.values):
            return self.target(buffer, index[: self.rows], index[self.rows :])
        own = self._of(buffer)
        return super().load(buffer, index, analyzer) if own is None else tirx.BufferLoad(own[0], [0])

    def _of(self, buffer: tirx.Buffer) -> tuple[tirx.Buffer, bool] | None:
        return next(((new, whole) for own, new, whole in self._made if own.same_as(buffer)), None)


def shared_rows(read: Read, kept: Sequence[Stage], rows: int, machine: Machine) -> tirx.PrimFunc:
    """Return the function of plain values whose stages share its first `rows` axes, for a GPU.

    Raises
    ------
    UnreadableError
        A stage combines numbers in a way of its own.
    """

    def body(nest: Nest) -> None:
        memory = _Memory(nest, read, rows, kept)
        shape = shape_of(read.output)[:rows]
        sharing = _sharing(memory, kept, prod(shape), machine)
        if not memory.fits(sharing):
            memory.spread()
        with sharers(nest, sharing) as items:
            memory.begin(items)
            row = places(items.row, shape, nest.analyzer)
            for number, stage in enumerate(kept):
                _Shared(memory, stage, row, last=number == len(kept) - 1).emit()

    return build(machine, body)


def _sharing(memory: _Memory, kept: Sequence[Stage], count: int, machine: Machine) -> Sharing:
    lengths = [prod(stage.extents) // count for stage in kept]
    vector = 4 if max(lengths) % 4 == 0 else 1
    units = machine.gpu.units if machine.gpu else 1
    found = sharing_of(count, -(-max(lengths) // vector), units)
    if memory.fits(found):
        return found
    return sharing_of(count, -(-max(lengths) // vector), units, together=False)


class _Shared(RowStage):
    """Generator of one stage for one row, by the items that share it."""

    memory: _Memory

    def __init__(self, memory: _Memory, stage: Stage, row: list[Expr], *, last: bool) -> None:
        super().__init__(memory, stage, row)
        self.items, self.last = memory.items, last

    def emit(self) -> None:
        """Emit the stage."""
        if self.value.reduces:
            self._reduction()
        elif prod(self.rest) == 1:
            self._number(self.value.at(self.stage.value, [*self.row, *self.zeros], [], self.analyzer))
        else:
            self._elements()

    def _number(self, value: Expr) -> None:
        """Emit a number of the row, which every item keeps."""
        kept = self.memory.number(self.stage.buffer) if self.whole else self.out
        ir.buffer_store(kept, value, [0])
        if self.whole:
            with self.items.first():
                ir.buffer_store(self.out, kept[0], [*self.row, *self.zeros])

    def _elements(self) -> None:
        free = [tirx.Var("i", "int32") for _ in self.rest]
        value = self.value.at(self.stage.value, [*self.row, *free], [], self.analyzer)
        size = self._size(value, free, self.rest)
        value = self.hoisted(value, free)

        def emit(vector: Expr) -> None:
            with self.nest.vector(size) as lane:
                at = self._place(vector, self.rest, size, lane)
                load = self.memory.target(self.stage.buffer, self.row, at)
                found = bound(value, free, at, self.analyzer)
                ir.buffer_store(load.source, found, list(load.indices))

        inside = self.items.exists if self.memory.read.place(self.stage.buffer) is not None else None
        with nullcontext() if self.last else self.items.exchange(), self.nest.when(inside):
            self.items.in_turns(prod(self.rest) // size, emit)

    def _reduction(self) -> None:
        combine, each, free = self.step()
        size = self._size(each, free, self.value.reduced)
        each = self.hoisted(each, free)
        total = self.nest.local((size,), str(self.out.dtype))
        with self.nest.vector(size) as lane:
            ir.buffer_store(total, self.stage.parts[0].begin, [lane])

        def emit(vector: Expr) -> None:
            with self.nest.vector(size) as lane:
                at = self._place(vector, self.value.reduced, size, lane)
                found = bound(each, free, at, self.analyzer)
                ir.buffer_store(total, combine(total[lane], found), [lane])

        self.items.in_turns(prod(self.value.reduced) // size, emit)
        one = self.nest.local((1,), str(self.out.dtype))
        ir.buffer_store(one, total[0], [0])
        for place in range(1, size):
            ir.buffer_store(one, combine(one[0], total[place]), [0])
        self.items.meet(one, combine)
        self._number(one[0])

    def _size(self, value: Expr, free: list[Var], extents: Sequence[int]) -> int:
        """Return the numbers of a vector: those of a block if neighbours lie together, else one."""
        return self.lanes if extents[-1] % self.lanes == 0 and along(value, free) else 1

    def _place(self, vector: Expr, extents: Sequence[int], size: int, lane: Expr) -> list[Expr]:
        """Return the place of a lane of a vector."""
        *outer, last = places(vector, [*extents[:-1], extents[-1] // size], self.analyzer)
        return [*outer, self.analyzer.simplify(last * size + lane)]
