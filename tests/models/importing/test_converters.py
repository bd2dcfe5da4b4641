"""Operators that Relax says otherwise than ONNX: the numbers are onnxruntime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded

SHAPE = (2, 3, 4)


@pytest.mark.parametrize("operator", ["Sum", "Mean", "Max", "Min"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_operators_of_several_operands_are_fused(operator: str, count: int, tmp_path: Path) -> None:
    names = [f"x{number}" for number in range(count)]
    shapes = [SHAPE, (4,), (3, 1), (1, 1, 4)]
    graph = graph_of(
        [helper.make_node(operator, names, ["y"])],
        [tensor_info(name, shape) for name, shape in zip(names, shapes, strict=False)],
        [tensor_info("y", SHAPE)],
        {},
    )
    model = loaded(graph, tmp_path)
    assert "stack" not in str(model.module)
    assert_same(model)


@pytest.mark.parametrize("stored", [False, True])
def test_indices_outside_read_nothing_else(stored: bool, tmp_path: Path) -> None:
    places, near = np.array([[-3, -1], [0, 7], [-9, 2]]), np.array([[0, 2], [0, 2], [0, 2]])
    inputs = [tensor_info("x", SHAPE)]
    if not stored:
        inputs.append(tensor_info("i", places.shape, TensorProto.INT64))
    node = helper.make_node("Gather", ["x", "i"], ["y"], axis=1)
    weights = {"i": places} if stored else {}
    model = loaded(graph_of([node], inputs, [tensor_info("y", (2, 3, 2, 4))], weights), tmp_path)
    machine = relax.VirtualMachine(tvm.compile(model.module, "llvm"), tvm.cpu())
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    given = [tvm.runtime.tensor(each) for each in ([x] if stored else [x, places])]
    np.testing.assert_array_equal(machine["main"](*given).numpy(), np.take(x, near, axis=1))
