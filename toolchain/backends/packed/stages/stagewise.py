"""Loops for a function stage by stage, on packed and plain values: the code of the algorithm `general`.

Element-wise stages are computed inline; other stages (reductions, expensive values that are read often, the
outputs) are stored. Vectors run along the lanes of a packed value and along an axis of a plain one; the
outer axes run in parallel.
"""

from __future__ import annotations

from contextlib import suppress

from tvm import tirx
from tvm.sym import Analyzer

from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.memory import FunctionStorage
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.expressions import calls, inlined, substitute
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, UnreadableError, shape_of
from toolchain.backends.packed.stages.alike import rows_of
from toolchain.backends.packed.stages.blocks import StageLoops
from toolchain.backends.packed.stages.plain import plain
from toolchain.backends.packed.stages.rows import with_input_rows
from toolchain.backends.packed.stages.rowwise import rowwise
from toolchain.backends.packed.stages.shared_rows import shared_rows
from toolchain.backends.packed.stages.tables import with_tables
from toolchain.backends.packed.stages.value import StageValue


def stagewise(read: Read, layouts: Layouts, machine: Machine) -> tirx.PrimFunc:
    """Return the loops of a function, stage by stage.

    Raises
    ------
    UnreadableError
        A stage of the function is of an unknown kind.
    """

    kept = [stage for stage in read.stages if _kept(read, stage)]
    last = _lasts(read, kept)
    made = _by_rows(read, kept, last, layouts, machine)
    if made is not None:
        return made
    rows: list[tirx.Buffer] = []
    if machine.gpu is None:
        read, tables = with_tables(read, inverts=not machine.pieces.fine)
        if layouts[-1] is None:
            read, rows = with_input_rows(read, repeats=not any(layouts))
        stored = [*tables, *rows, *(stage.buffer for stage in kept)]
        kept = [stage for stage in read.stages if any(stage.buffer.same_as(each) for each in stored)]
        last = _lasts(read, kept)

    def body(nest: Nest) -> None:
        memory = FunctionStorage(nest, read, layouts)
        for stage in kept:
            if stage.buffer in last:
                continue
            first = next((each for each in kept if last.get(each.buffer) is stage), None)
            value = StageValue(memory, stage) if first is None else StageValue(memory, first, stage)
            for part in stage.parts:
                if read.place(part.buffer) is None:
                    memory.allocate(part.buffer, packs=not any(part.buffer.same_as(own) for own in rows))
            outs, layout = memory.targets(stage)
            if layout is None:
                plain(value, outs)
            else:
                StageLoops(value, outs, layout).emit()

    return build(machine, body)


def _by_rows(
    read: Read, kept: list[Stage], last: dict[tirx.Buffer, Stage], layouts: Layouts, machine: Machine
) -> tirx.PrimFunc | None:
    """Return the loops that take row after row through all stages; None if stages share no rows."""
    if any(layouts):
        return None
    with suppress(UnreadableError):
        if machine.gpu is None:
            rows = rows_of(read, kept)
            return rowwise(read, kept, rows, machine) if rows else None
        rows = rows_of(read, kept, 1)
        # `plain` shares a single reduction out by itself, whichever its axes.
        return shared_rows(read, kept, rows, machine) if rows and len(kept) - len(last) > 1 else None
    return None


def _lasts(read: Read, kept: list[Stage]) -> dict[tirx.Buffer, Stage]:
    """Return the reductions that only one later stage reads, element by element, with that stage."""
    found: dict[tirx.Buffer, Stage] = {}
    for stage in kept:
        if stage.init is None or len(stage.parts) > 1 or read.place(stage.buffer) is not None:
            continue
        readers = [(each, _indices(read, kept, each, stage.buffer)) for each in kept if each is not stage]
        readers = [(each, indices) for each, indices in readers if indices]
        if len(readers) == 1:
            reader, indices = readers[0]
            same = all(
                len(index) == len(reader.indices) and all(map(_equal, index, reader.indices))
                for index in indices
            )
            alike = shape_of(reader.buffer) == shape_of(stage.buffer) and len(reader.parts) == 1
            if same and alike and reader.init is None and not any(each is reader for each in found.values()):
                found[stage.buffer] = reader
    return found


def _indices(read: Read, kept: list[Stage], stage: Stage, buffer: tirx.Buffer) -> list[list[Expr]]:
    """Return the indices at which a kept stage reads a buffer, through inlined stages too."""
    found: list[list[Expr]] = []
    stored = [part.buffer for each in kept for part in each.parts]

    def leaf(source: tirx.Buffer, index: list[Expr]) -> Expr | None:
        if source.same_as(buffer):
            found.append(index)
        known = read.place(source) is not None or any(source.same_as(each) for each in stored)
        return tirx.BufferLoad(source, index) if known else None

    for part in stage.parts:
        substitute(part.value, [], inlined(read, leaf, Analyzer()))
    return found


def _equal(one: Expr, other: Expr) -> bool:
    return one.same_as(other) or (
        isinstance(one, tirx.IntImm) and isinstance(other, tirx.IntImm) and int(one) == int(other)
    )


def _kept(read: Read, stage: Stage) -> bool:
    """Return whether a stage's values are stored, because computing them repeatedly would cost more."""
    if stage.init is not None or any(read.place(part.buffer) is not None for part in stage.parts):
        return True
    readers = read.readers(stage.buffer)
    often = len(readers) > 1 or any(reader.init is not None for reader in readers)
    return often and calls(stage.value) > 0
