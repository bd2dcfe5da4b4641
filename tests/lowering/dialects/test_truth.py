"""What a comparison gives is 1 where a kernel computes with it, whoever scheduled the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from tvm import s_tir, te, tirx

from tests.runtime.opencl_network import target
from toolchain.lowering.kernels.compile import compiled


@pytest.mark.parametrize("lanes", [1, 4])
def test_it_is_chosen_and_not_converted(lanes: int, tmp_path: Path) -> None:
    x = te.placeholder((256,), name="x")
    y = te.compute((256,), lambda i: (x[i] < tirx.const(3, "float32")).astype("float32"), name="y")
    schedule = s_tir.Schedule(te.create_prim_func([x, y]))
    items, vector = schedule.split(schedule.get_loops("y")[0], [None, lanes])
    schedule.bind(items, "threadIdx.x")
    schedule.vectorize(vector)
    (kernel,) = compiled(schedule.mod["main"], target("x86_64"), "kernel", tmp_path).kernels
    assert "<" in kernel.source and "convert_float" not in kernel.source, kernel.source
