"""Generated code in float16 computes what onnxruntime does in float32, about."""

from __future__ import annotations

import pytest

from tests.backends.packed.computed import HALF_MACHINES, wrong
from tests.backends.packed.drawn import Branches, Drawn, Excite, Gemm, MatMul, Move, Network, Pointwise
from tests.backends.packed.windows import Conv, Pool, Transposed, Window
from toolchain.backends.packed.machine import Machine

SAME = Window((3,) * 3, pads=((1, 1),) * 3)
STEP = Window((3,) * 3, (2,) * 3, pads=((1, 1),) * 3)
MAX, AVERAGE = Pool("MaxPool", STEP), Pool("AveragePool", SAME)

NETWORKS: tuple[Drawn, ...] = (
    # Few channels, then sums of more than one part, with what follows them.
    Network((1, 3, 9, 8), (Conv(40, STEP), Pointwise("Relu"), Conv(64, SAME), Pointwise("clip"), Conv(7))),
    Network((1, 64, 5, 6), (Branches(((Conv(64, SAME), Pointwise("silu")), ()), True), MAX)),
    Network((1, 33, 6, 5), (Conv(1, SAME, groups=0), Pointwise("HardSwish"), Excite(4))),
    Network((1, 64, 4, 4), (Conv(16, SAME, groups=4), Move("upsample"), Pointwise("add image"))),
    Network((1, 40, 4, 5), (Transposed(16, STEP), Pointwise("Tanh"))),
    Network((1, 32, 4, 4), (Branches(((Conv(32),), (Conv(5), Pointwise("cosine")))), AVERAGE)),
    Gemm(5, 70, 40, (False, True), True, "row", 1.0, "Softmax"),
    MatMul((2,), (2,), 3, 67, 9, False, False, "Relu"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "networks"),
    # LLVM takes its time over float16 for a CPU without it: of Arm's form two will do.
    [(HALF_MACHINES[0], NETWORKS), (HALF_MACHINES[1], NETWORKS[2:4])],
    ids=lambda value: value.isa if isinstance(value, Machine) else "",
)
def test_networks_compute_what_onnxruntime_does(machine: Machine, networks: tuple[Drawn, ...]) -> None:
    assert not wrong(networks, machine)
