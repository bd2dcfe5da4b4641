"""Running sums on a device: along the last axis, too."""

from __future__ import annotations

import tvm
from tvm import relax

from tests.runtime.opencl_network import target
from toolchain.lowering.functions.tasks import extract_tasks
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.graph.scans import with_scans_moved


def network(axis: int) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 6, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.cumsum(x, axis=axis, exclusive=True))
        builder.emit_func_output(out)
    return builder.get()


def test_sums_along_the_last_axis_see_another_behind_it() -> None:
    for axis in (2, -1):
        text = str(with_scans_moved(network(axis)))
        assert "cumsum" in text and "(24, 8, 1)" in text.replace("T.int64", "").replace("R.shape", "")
    assert "reshape" not in str(with_scans_moved(network(1)))


def test_each_is_a_task_of_a_device() -> None:
    for axis in (0, 1, 2):
        tasks = extract_tasks(fuse(network(axis), target("x86_64")))
        assert tasks, "its shapes are known"
