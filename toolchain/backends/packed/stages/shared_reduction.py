"""A reduction on a GPU whose every result work items share out: global pools, means, largest numbers.

An item adds up every n-th step of the reduction for some neighbouring results, or every n-th vector of the
last reduced axis for one of them. Partial results meet (`loops.sharing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.loops.sharing import sharers, sharing_of
from toolchain.backends.packed.pieces import places
from toolchain.backends.packed.recognise.expressions import bind, calls
from toolchain.backends.packed.recognise.read import Expr, shape_of
from toolchain.backends.packed.stages.value import Combine, StageValue

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
