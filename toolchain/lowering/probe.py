"""The sum of two vectors, without a schedule: the smallest thing that goes the whole way to a board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import te

from toolchain.lowering.code import code_of
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.parameter import Array, Parameter
from toolchain.tasks.probe import Known, Probe

_LENGTH = 1024
_VECTOR = Parameter((_LENGTH,), "float32")
_TASK = Known("known-good-kernel", "sum of two vectors", 1, _LENGTH, ((_LENGTH,),) * 3)


@dataclass(frozen=True)
class Sum:
    """What numpy says of it; see `tasks.reference.Reference`."""

    parameters: tuple[Parameter, ...] = (_VECTOR, _VECTOR)

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return the sums."""
        return [[a + b] for a, b in draws]


def probe_for(target: tvm.target.Target) -> Probe:
    """Return the sum, for a target."""
    a, b = (te.placeholder((_LENGTH,), name=name) for name in "ab")
    func = te.create_prim_func([a, b, te.compute((_LENGTH,), lambda i: a[i] + b[i], name="sum")])
    candidate = Candidate(Entry("probe", "", "probe"), code_of(Scheduled(func), target), (_VECTOR,) * 3, 1)
    return Probe(_TASK, candidate, Sum())
