"""The known-good function that checks boards: a chain of products and sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import s_tir, te

from toolchain.arrays import Array
from toolchain.lowering.kernels.code import code_of
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.parameter import Parameter
from toolchain.tasks.reference import Known, Probe

_LENGTH = 1024
# Steps for each element, so that the core's arithmetic decides the time. The sum of two vectors takes twice
# as long in one process as in another, depending on the addresses of their memory (58 and 112 ns).
_STEPS = 32
_GROUP = 64  # work items in a group, which every device supports
_FACTOR = 0.75  # a step is x = 0.75 x + b
_VECTOR = Parameter((_LENGTH,), "float32")
_TASK = Known("known-good-kernel", "chain of products and sums", 1, 2 * _STEPS * _LENGTH, ((_LENGTH,),) * 3)


@dataclass(frozen=True)
class ChainReference:
    """Computes the chain with numpy; see `tasks.reference.TaskReference`."""

    parameters: tuple[Parameter, ...] = (_VECTOR, _VECTOR)

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Compute the results of the chains."""
        return [[_chain(a, b)] for a, b in draws]


def _chain(a: Array, b: Array) -> Array:
    x = a
    for _ in range(_STEPS):
        x = x * np.float32(_FACTOR) + b
    return x


def probe_for(target: BoardTarget) -> Probe:
    """Return the probe for a target; on a device it has a work item for each element."""
    a, b = (te.placeholder((_LENGTH,), name=name) for name in "ab")

    def chain(i: tvm.tirx.Var) -> tvm.tirx.PrimExpr:
        x = a[i]
        for _ in range(_STEPS):
            x = x * _FACTOR + b[i]
        return x

    func = te.create_prim_func([a, b, te.compute((_LENGTH,), chain, name="chain")])
    if target.limits:
        func = _in_groups(func, min(_GROUP, target.limits.max_work_group or 1))
    code = code_of(Scheduled(func), target.target)
    candidate = Candidate(Entry("probe", "", "probe"), code, (_VECTOR,) * 3, 1, target.kind)
    return Probe(_TASK, candidate, ChainReference())


def _in_groups(func: tvm.tirx.PrimFunc, group: int) -> tvm.tirx.PrimFunc:
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
    (loop,) = schedule.get_loops("chain")
    groups, items = schedule.split(loop, [None, group])
    schedule.bind(groups, "blockIdx.x")
    schedule.bind(items, "threadIdx.x")
    made: tvm.tirx.PrimFunc = schedule.mod["main"]
    return made
