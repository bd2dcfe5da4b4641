"""Shares one function among functions that differ only in the places that they read.

Exporters that unroll a loop leave a slice for each of its steps, hundreds in a network. Each slice was a
function of its own: generated, lowered and compiled. Here the places become a constant input, so that all
slices share one recipe and one object.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.ir.expr import TensorLoad

from toolchain import tvm_compat
from toolchain.backends.packed.network.steps import Generated, Plan
from toolchain.backends.packed.recognise.read import Expr, Read, shape_of
from toolchain.lowering.kernels.pickling import pickled

MANY = 4
"""Fewest functions to share: a shared one has to load its places, while constants in code cost nothing."""

_Place = Callable[[Expr, int], Expr]
"""Returns a new index from the variable part and the constant part of an index."""


def share_repeated(plan: Plan) -> None:
    """Share one function among those of a plan that differ only in constants of indices.

    The calls keep their functions' names, by which profiles, tasks and records tell them apart.
    """
    candidates: defaultdict[object, list[Generated]] = defaultdict(list)
    for step in plan.steps:
        if isinstance(step, Generated) and step.contraction is None and _plain(step, plan):
            candidates[_outline(step.read)].append(step)
    changed: dict[relax.Var, Generated] = {}
    for steps in candidates.values():
        if len({step.function for step in steps}) < MANY:
            continue
        alike: defaultdict[bytes, list[tuple[Generated, list[int]]]] = defaultdict(list)
        for step in steps:
            places: list[int] = []
            alike[pickled(_with_places(step.read, _collecting(places)))].append((step, places))
        for group in alike.values():
            if len({tuple(places) for _step, places in group}) >= MANY:
                changed.update((step.var, step) for step in _shared(group))
    plan.steps[:] = [changed.get(step.var, step) for step in plan.steps]


def _plain(step: Generated, plan: Plan) -> bool:
    """Return whether all values that a step reads and writes are plain."""
    return not any(value in plan.packed for value in (step.var, *step.arguments))


def _outline(read: Read) -> object:
    """Return a cheap key that is equal for functions which differ only by places."""
    return tuple((shape_of(param), str(param.dtype)) for param in read.params), len(read.stages)


def _shared(group: Sequence[tuple[Generated, list[int]]]) -> Iterable[Generated]:
    """Yield the steps of a group, all with one function."""
    differing = [len(set(places)) > 1 for places in zip(*(places for _step, places in group), strict=True)]
    count = sum(differing)
    first = group[0][0].read
    given = tirx.decl_buffer((count,), "int32", name="places")
    numbers = iter(range(count))
    kinds = iter(differing)

    def place(rest: Expr, constant: int) -> Expr:
        told = next(kinds)
        end = tirx.BufferLoad(given, [tirx.IntImm("int32", next(numbers))]) if told else _number(constant)
        return _sum(rest, end)

    read = _with_places(first, place)
    read = Read((*read.params[:-1], given, read.params[-1]), read.stages)
    for step, places in group:
        own = [constant for constant, told in zip(places, differing, strict=True) if told]
        arguments = [*step.arguments, relax.const(np.array(own, np.int32))]
        call = relax.call_tir(step.value.args[0], arguments, step.var.ty)
        yield replace(step, value=call, read=read)


def _collecting(places: list[int]) -> _Place:
    def place(rest: Expr, constant: int) -> Expr:
        places.append(constant)
        return rest

    return place


def _with_places(read: Read, place: _Place) -> Read:
    """Return a function with `place` applied to each index of a parameter, in a fixed order."""

    def load(node: TensorLoad, mutator: Any) -> Expr:
        if read.place(node.source) is None:
            return tirx.BufferLoad(node.source, [mutator.mutate(index) for index in node.indices])
        return tirx.BufferLoad(node.source, [place(*_split(index)) for index in node.indices])

    stages = tuple(
        replace(
            stage,
            parts=tuple(
                replace(part, value=tvm_compat.mutated(part.value, [(TensorLoad, load)]))
                for part in stage.parts
            ),
        )
        for stage in read.stages
    )
    return Read(read.params, stages)


def _split(index: Expr) -> tuple[Expr, int]:
    """Return an index as the sum of an expression and a constant."""
    if isinstance(index, tirx.IntImm):
        return _number(0), int(index)
    if isinstance(index, tirx.Add) and isinstance(index.b, tirx.IntImm):
        return index.a, int(index.b)
    return index, 0


def _sum(rest: Expr, end: Expr) -> Expr:
    if isinstance(rest, tirx.IntImm) and not int(rest):
        return end
    return rest if isinstance(end, tirx.IntImm) and not int(end) else tirx.Add(rest, end)


def _number(value: int) -> tirx.IntImm:
    return tirx.IntImm("int32", value)
