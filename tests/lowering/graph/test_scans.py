"""Running sums on a device: along the last axis, too."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.runtime.opencl_network import target
from toolchain.lowering.functions.tasks import extract_tasks
from toolchain.lowering.graph.pipeline import fuse, with_scans_moved


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


@pytest.mark.slow
@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
def test_the_sums_are_numpys(axis: int) -> None:
    x = np.random.default_rng(0).standard_normal((4, 6, 8)).astype("f4")
    vm = relax.VirtualMachine(tvm.compile(with_scans_moved(network(axis)), "llvm"), tvm.cpu())
    expected = np.cumsum(x, axis=axis) - x
    np.testing.assert_allclose(vm["main"](tvm.runtime.tensor(x)).numpy(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("axis", "shape"), [(0, (4, 6, 8)), (1, (4, 6, 8)), (2, (24, 8, 1))])
def test_each_is_one_task_of_a_device_with_shapes_that_are_known(axis: int, shape: tuple[int, ...]) -> None:
    tasks = extract_tasks(fuse(network(axis), target("x86_64")))
    (scan,) = [task for task in tasks if "cumsum" in task.name]
    assert (scan.shapes, scan.weight) == ((shape, shape), 1)
    assert all("reshape" in task.name for task in tasks if task is not scan)
