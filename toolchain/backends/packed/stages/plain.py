"""Loops of a stage that stores a plain value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.loops.work_group import sharers, sharing_of
from toolchain.backends.packed.pieces import places
from toolchain.backends.packed.recognise.expressions import bind, breaks, calls
from toolchain.backends.packed.recognise.read import Expr, shape_of
from toolchain.backends.packed.stages.repeats import repeated, repeats_of
from toolchain.backends.packed.stages.turned import turned, turned_of
from toolchain.backends.packed.stages.value import Combine, StageValue

# A reduction on a GPU whose every result work items share out: global pools, means, largest numbers.
#
# An item adds up every n-th step of the reduction for some neighbouring results, or every n-th vector of
# the last reduced axis for one of them. Partial results meet (`loops.sharing`).

_FEWEST = 16  # steps of a reduction that are worth meeting
_ENOUGH = 1024  # items for each unit, with which it is busy: then each may compute results of its own


@dataclass(frozen=True)
class Vectors:
    """The vector that an item loads at once.

    Attributes
    ----------
    axis
        Axis of the results along which `results` neighbours are computed together.
    steps
        Neighbours on the last reduced axis.
    """

    axis: int
    results: int
    steps: int


def vectors_of(value: StageValue, shape: Sequence[int], axis: int) -> Vectors | None:
    """Return the vectors of a reduction that is worth sharing out; None if it is not, or is no reduction.

    Parameters
    ----------
    axis
        Axis of the results whose neighbours may be computed together.
    """
    gpu, step, lanes = value.memory.nest.machine.gpu, value.step(), value.memory.lanes
    if gpu is None or step is None or prod(value.reduced) < _FEWEST:
        return None
    analyzer, whole = value.memory.analyzer, not calls(step[1], "if_then_else")
    first: list[Expr] = [tirx.IntImm("int32", 0) for _ in shape]
    steps: list[Expr] = [tirx.IntImm("int32", 0) for _ in value.reduced]
    lane = bind(analyzer, tirx.Var("lane", "int32"), lanes)
    along = [*steps[:-1], lane]
    if whole and value.reduced[-1] % lanes == 0 and value.strided(step[1], first, along, lane) == 0:
        return Vectors(axis, 1, lanes)
    across = [*first[:axis], lane, *first[axis + 1 :]]
    results = 1
    if whole and shape and shape[axis] % lanes == 0 and value.strided(step[1], across, steps, lane) == 0:
        results = lanes
    return Vectors(axis, results, 1) if prod(shape) // results < _ENOUGH * gpu.units else None


def shared_reduction(value: StageValue, out: tirx.Buffer, layout: Layout | None, vectors: Vectors) -> None:
    """Emit the kernel of a reduction.

    Parameters
    ----------
    layout
        Layout of the results; None: plain. Then they have no halo.
    """
    step, gpu = value.step(), value.memory.nest.machine.gpu
    if step is None or gpu is None:
        raise ValueError(f"{value.stage.name} is not shared out")
    combine, each = step
    nest, analyzer, shape = value.memory.nest, value.memory.analyzer, list(shape_of(value.target.buffer))
    width = vectors.results * vectors.steps
    if shape:
        shape[vectors.axis] //= vectors.results
    *outer, last = value.reduced
    space = [*outer, last // vectors.steps]
    with sharers(nest, sharing_of(prod(shape), prod(space), gpu.units)) as items:
        place = places(items.row, shape, analyzer)

        def index(lane: Expr) -> list[Expr]:
            if vectors.results == 1:
                return place
            at = analyzer.simplify(place[vectors.axis] * vectors.results + lane)
            return [*place[: vectors.axis], at, *place[vectors.axis + 1 :]]

        total = nest.local((width,), str(out.dtype))
        nest.fill(total, width, value.stage.parts[0].begin)

        def add(number: Expr) -> None:
            *before, vector = places(number, space, analyzer)
            with nest.vector(width) as lane:
                at = vector if vectors.steps == 1 else analyzer.simplify(vector * vectors.steps + lane)
                found = value.at(each, index(lane), [*before, at], analyzer)
                ir.buffer_store(total, combine(total[lane], found), [lane])

        items.in_turns(prod(space), add)
        if vectors.steps > 1:
            total = _folded(value, total, combine)
        items.meet(total, combine)
        with items.first(), nest.vector(vectors.results) as lane:
            at = index(lane)
            result = value.result([total[lane]], at, analyzer)[0]
            ir.buffer_store(out, result, at if layout is None else layout.at(at, analyzer))


def _folded(value: StageValue, total: tirx.Buffer, combine: Combine) -> tirx.Buffer:
    """Emit the combination of a vector's numbers; return it."""
    one = value.memory.nest.local((1,), str(total.dtype))
    ir.buffer_store(one, total[0], [0])
    for place in range(1, int(total.shape[0])):
        ir.buffer_store(one, combine(one[0], total[place]), [0])
    return one


_JOBS = 8  # fewest parallel pieces that are enough for the cores of today's boards
_PARTS = 16  # most parts of an axis: each has its own code
_SPLIT = 1 << 16  # elements from which a reduction to one number is worth several cores


def plain(value: StageValue, outs: list[tirx.Buffer]) -> None:
    """Emit the loops of a stage whose results have the plain layout.

    Vectors run along the last axis of the output that is longer than 1. They run along the last reduced axis
    if operands are contiguous there, and the output's axis is shorter than a vector or operands are not
    contiguous along it.

    Parameters
    ----------
    value
        The stage, with the expressions that it computes.
    outs
        The buffers to write, one for each result of the stage.
    """
    shape = shape_of(outs[0])
    lanes, machine = value.memory.lanes, value.memory.nest.machine
    step = value.step()
    axis = max((place for place, extent in enumerate(shape) if extent > 1), default=len(shape) - 1)
    vectors = vectors_of(value, shape, axis)
    if vectors is not None:
        shared_reduction(value, outs[0], None, vectors)
        return
    squares = turned_of(value) if step is None else None
    if squares is not None:
        turned(value, squares, outs[0])
        return
    repeats = repeats_of(value) if step is None else None
    if repeats is not None:
        repeated(value, repeats, outs[0])
        return
    if step is not None:
        sizes = (machine.vectors(4), lanes)
        across = max((size for size in sizes if _neighbours(value, step[1], size)), default=0)
        if across and (not shape or shape[axis] < lanes or not _aligned(value, step[1], axis)):
            _across(value, outs[0], *step, across)
            return
    _along(value, outs, axis)


def _constants(shape: Sequence[int]) -> list[Expr]:
    return [tirx.IntImm("int32", 0) for _ in shape]


def _aligned(value: StageValue, step: Expr, axis: int) -> bool:
    """Return whether neighbours along an axis of the output read neighbouring operands."""
    lane = bind(value.memory.analyzer, tirx.Var("lane", "int32"), value.memory.lanes)
    index = _constants(shape_of(value.stage.buffer))
    index[axis] = lane
    return value.strided(step, index, _constants(value.reduced), lane) == 0


def _neighbours(value: StageValue, step: Expr, size: int) -> bool:
    """Return whether `size` steps of the last reduced axis read neighbours."""
    if not value.reduced or value.reduced[-1] < size:
        return False
    analyzer = value.memory.analyzer
    lane = bind(analyzer, tirx.Var("lane", "int32"), size)
    vector = bind(analyzer, tirx.Var("vector", "int32"), value.reduced[-1] // size)
    at = [*_constants(value.reduced[:-1]), vector * size + lane]
    return value.strided(step, _constants(shape_of(value.stage.buffer)), at, lane) == 0


def _along(value: StageValue, outs: list[tirx.Buffer], axis: int) -> None:
    """Emit vectors along an axis of the output."""
    memory, shape = value.memory, shape_of(outs[0])
    outer, behind = shape[: max(axis, 0)], _constants(shape[axis + 1 :])
    ends = [*_cuts(value, shape, axis), shape[axis]] if shape else [1]
    parts = [
        (begin + start, many, size)
        for begin, end in zip([0, *ends], ends, strict=False)
        for start, many, size in _vectors(end - begin, memory.lanes)
    ]

    def emit(before: list[Expr], vector: Expr, start: int, size: int) -> None:
        def index(_column: Expr, lane: Expr) -> list[Expr]:
            at = memory.analyzer.simplify(vector * size + start + lane)
            return [*before, at, *behind] if shape else []

        def store(column: Expr, lane: Expr, values: list[Expr]) -> None:
            for out, each in zip(outs, values, strict=True):
                ir.buffer_store(out, each, index(column, lane))

        value.emit(size, 1, index, store, memory.analyzer)

    gpu = memory.nest.machine.gpu is not None
    if gpu and len(parts) > 1:  # each part would take a launch of its own
        parts = [(0, shape[axis], 1)]
    if prod(outer) >= _JOBS and not gpu:  # a GPU has an item for each vector
        with memory.pieces(outer, value.stage) as before:
            for start, many, size in parts:
                with memory.nest.grid([many]) as (vector,):
                    emit(before, vector, start, size)
        return
    for start, many, size in parts:
        space = [*outer, many]
        with memory.pieces(space, value.stage) as (*before, step):
            emit(before, step, start, size)


def _cuts(value: StageValue, shape: Sequence[int], axis: int) -> list[int]:
    """Return where to cut an axis so that every condition is the same for all lanes of a vector.

    For other vectors, TVM would generate a loop over the lanes with a branch in it.
    """
    analyzer = Analyzer()
    index = [bind(analyzer, tirx.Var("i", "int32"), extent) for extent in shape]
    steps = [bind(analyzer, tirx.Var("step", "int32"), extent) for extent in value.reduced]
    values = value.values(index, steps, analyzer)
    found, _all = breaks(values, index[axis], shape[axis], analyzer)
    return found if len(found) < _PARTS else []


def _vectors(extent: int, lanes: int) -> list[tuple[int, int, int]]:
    """Return the vectors of an axis, (start, count, size), with ever smaller ones for the rest."""
    found, start, size = [], 0, lanes
    while start < extent:
        if many := (extent - start) // size:
            found.append((start, many, size))
            start += many * size
        size //= 2
    return found


def _across(value: StageValue, out: tirx.Buffer, combine: Combine, step: Expr, wide: int) -> None:
    """Emit vectors along the last reduced axis; each is combined to one number in the end."""
    memory, nest, shape = value.memory, value.memory.nest, shape_of(out)
    analyzer, init = memory.analyzer, value.stage.parts[0].begin
    *before, last = value.reduced
    split = before[0] if before and prod(shape) < _JOBS and prod(value.stage.extents) >= _SPLIT else 1
    partial = nest.shared((prod(shape), split), str(out.dtype)) if split > 1 else None
    with memory.pieces([prod(shape), split], value.stage) as (number, part):
        index = places(number, shape, analyzer)
        total = nest.local((wide,), str(out.dtype))
        with nest.vector(wide) as lane:
            ir.buffer_store(total, init, [lane])
        left, start = wide, 0
        for size in (*[wide] * (wide > memory.lanes), memory.lanes, 1):
            while left > size:  # combine the halves
                left //= 2
                with nest.vector(left) as lane:
                    ir.buffer_store(total, combine(total[lane], total[lane + left]), [lane])
            many = (last - start) // size
            if not many:
                continue
            outer = before if partial is None else before[1:]
            with nest.grid([*outer, many]) as (*steps, vector), nest.vector(size) as lane:
                at = analyzer.simplify(vector * size + start + lane)
                reduced = [*([] if partial is None else [part]), *steps, at]
                each = value.at(step, index, reduced, analyzer)
                ir.buffer_store(total, combine(total[lane], each), [lane])
            start += many * size
        if partial is None:
            ir.buffer_store(out, value.result([total[0]], index, analyzer)[0], index)
        else:
            ir.buffer_store(partial, total[0], [number, part])
    if partial is not None:
        _gather(value, partial, out, combine)


def _gather(value: StageValue, partial: tirx.Buffer, out: tirx.Buffer, combine: Combine) -> None:
    """Emit code that combines the parts of split reductions."""
    nest, analyzer = value.memory.nest, value.memory.analyzer
    count, split = shape_of(partial)
    with nest.pieces([count], small=True) as (number,):
        total = nest.local((1,), str(out.dtype))
        ir.buffer_store(total, partial[number, 0], [0])
        with nest.serial(split, first=1) as part:
            ir.buffer_store(total, combine(total[0], partial[number, part]), [0])
        index = places(number, shape_of(out), analyzer)
        ir.buffer_store(out, value.result([total[0]], index, analyzer)[0], index)
