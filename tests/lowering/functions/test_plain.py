"""The reference of a task computes what its definition says, whatever candidates do."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import loaded
from toolchain.boards.inventory.lookup import find_target
from toolchain.errors import ToolchainError
from toolchain.lowering.functions.definition import function_of, module_of
from toolchain.lowering.functions.tasks import FusedTask, PlainFunction, extract_tasks, plain_function
from toolchain.lowering.graph.pipeline import fuse
from toolchain.models.load import Model
from toolchain.targets.target import target_for
from toolchain.tuning.boards.cases import drawn, wrong


@pytest.fixture(scope="module")
def tasks(model: Model) -> list[FusedTask]:
    return extract_tasks(fuse(model.module, target_for(find_target("rk3399").profile).target))


def outputs(reference: PlainFunction) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return what a reference is given in its second draw, and what it computes."""
    given = drawn(reference.parameters, 1)
    arrays = [
        given[place] if parameter.value is None else parameter.value
        for place, parameter in enumerate(reference.parameters)
    ]
    return arrays, pickle.loads(pickle.dumps(reference)).outputs([arrays])[0]  # as in a worker


@pytest.mark.slow
def test_products_are_those_of_numpy(tasks: list[FusedTask]) -> None:
    (task,) = (task for task in tasks if "matmul" in task.name)
    (x, weight, *bias), (y,) = outputs(plain_function(task))
    expected = x.astype(np.float64) @ weight.astype(np.float64) + (bias[0] if bias else 0)
    assert y == pytest.approx(expected, rel=1e-5, abs=1e-4)
    assert np.any(weight), "the network's own weight"


@pytest.mark.slow
def test_the_order_of_loops_changes_nothing(tasks: list[FusedTask]) -> None:
    for task in tasks:
        reference = plain_function(task)
        given, computed = outputs(reference)
        unchanged = tvm.compile(module_of(function_of(reference.definition)), target="llvm")["main"]
        arrays = [tvm.runtime.tensor(array) for array in given]
        results = [tvm.runtime.empty(each.shape, each.dtype) for each in reference.results]
        unchanged(*arrays, *results)
        for result, output in zip(results, computed, strict=True):
            assert wrong([output], [result.numpy()]) == "", task.name


def test_a_scalar_inside_of_a_definition_is_computed(tmp_path: Path) -> None:
    """Its block has an axis, but no loop."""
    nodes = [
        helper.make_node("Sub", ["s", "eighty"], ["low"]),
        helper.make_node("Max", ["x", "low"], ["y"]),
    ]
    ends = [tensor_info("x", (1, 8)), tensor_info("s", ())], [tensor_info("y", (1, 8))]
    model = loaded(graph_of(nodes, *ends, {"eighty": np.float32(80)}), tmp_path)
    (task,) = extract_tasks(fuse(model.module, target_for(find_target("rk3399").profile).target))
    given, (y,) = outputs(plain_function(task))
    (x,) = (array for array in given if array.shape == y.shape)
    assert np.all(y >= x)


def test_a_definition_that_is_none_is_told(tasks: list[FusedTask]) -> None:
    damaged = PlainFunction("{}", (), plain_function(tasks[0]).results)
    with pytest.raises(ToolchainError, match="the definition of a task cannot be read"):
        damaged.outputs([[]])
