"""The function that candidates of a task compute: the task's own, or one part of it."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from toolchain import tvm_compat
from toolchain.backends.packed.network.alone import generated
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.recognise.contraction import among
from toolchain.backends.packed.recognise.read import Read, shape_of
from toolchain.lowering.functions.tasks import FusedTask


def measured(task: FusedTask, choices: Choices) -> FusedTask:
    """Return a task whose function is the part with the contraction, for the reference of its candidates.

    What does not depend element-wise on the contraction, or has another type, becomes a function of its own
    in the network; no candidate computes it. Parts that read earlier parts have no such definition: then the
    task is returned as it is.
    """
    step = generated(task, choices)
    if step is None:
        return task
    *inputs, target = step.read.params
    func = task.func
    if target.same_as(func.params[-1]) or not all(among(each, func.params) for each in inputs):
        return task
    shapes = tuple(tuple(int(extent) for extent in shape_of(each)) for each in step.read.params)
    return replace(task, func=_only(func, step.read), shapes=shapes, call=step.value, outputs=1)


def _only(func: tirx.PrimFunc, part: Read) -> tirx.PrimFunc:
    """Return the statements of a function that the output of a part depends on."""
    root = func.body.block
    target = part.output
    kept: list[tirx.Stmt] = []
    wanted = [target]
    for statement in reversed(root.body.seq):
        if any(among(buffer, wanted) for buffer in _stored(statement)):
            kept.insert(0, statement)
            wanted += _loaded(statement)
    inner = [each for each in root.alloc_buffers if among(each, wanted) and not each.same_as(target)]
    body = kept[0] if len(kept) == 1 else tirx.SeqStmt(kept)
    block = s_tir.SBlock([], [], [], root.name_hint, body, None, inner)
    params = cast("list[tirx.Var]", list(part.params))  # a buffer is a variable, which the stubs do not say
    return tirx.PrimFunc(params, s_tir.SBlockRealize([], True, block))


def _stored(statement: tirx.Stmt) -> list[tirx.Buffer]:
    found: list[tirx.BufferStore] = []
    tvm_compat.walked(statement, [(tirx.BufferStore, found.append)])
    return [store.buffer for store in found]


def _loaded(statement: tirx.Stmt) -> list[tirx.Buffer]:
    found: list[TensorLoad] = []
    tvm_compat.walked(statement, [(TensorLoad, found.append)])
    return [load.source for load in found]
