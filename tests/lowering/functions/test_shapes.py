"""Tasks of a network in several shapes: one for functions that are equal, with the calls of each shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from toolchain.lowering.functions.tasks import FusedTask, extract_tasks
from toolchain.lowering.graph.pipeline import fuse
from toolchain.models.multi_shape import load_shapes
from toolchain.models.options import ModelOptions, shape_options
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

pytestmark = pytest.mark.slow


def tasks_of(source: Path, shape: str) -> list[FusedTask]:
    model = load_shapes(str(source), ModelOptions(**shape_options(None, [shape])))
    return extract_tasks(fuse(model.module, target_for(load_profile("x86_64")).target))


@pytest.fixture
def pooled(tmp_path: Path) -> Path:
    """Write a convolution over any width, its mean, and a product that no width changes."""
    generator = np.random.default_rng(0)
    weights = {"w": (8, 3, 3, 3), "d": (8, 5)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("ReduceMean", ["c"], ["m"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["m", "d"], ["y"]),
    ]
    wide, out = tensor_info("x", [1, 3, 8, "w"]), tensor_info("y", [1, 5])
    arrays = {name: generator.standard_normal(shape, "float32") for name, shape in weights.items()}
    file = tmp_path / "pooled.onnx"
    onnx.save(graph_of(nodes, [wide], [out], arrays), str(file))
    return file


def test_equal_functions_of_all_shapes_are_one_task(pooled: Path) -> None:
    tasks = tasks_of(pooled, "x=1,3,8,{8,16,32}")
    (product,) = [task for task in tasks if "matmul" in task.name]
    assert (product.calls, product.weight) == ((1, 1, 1), 3)
    convolutions = [task for task in tasks if "conv2d" in task.name]
    assert [task.shapes[0][3] for task in convolutions] == [32, 16, 8]
    assert [task.calls for task in convolutions] == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]


def test_tasks_are_those_of_the_shapes_alone(pooled: Path) -> None:
    alone = {task.workload for width in (8, 16) for task in tasks_of(pooled, f"x=1,3,8,{width}")}
    both = tasks_of(pooled, "x=1,3,8,{8,16}")
    assert {task.workload for task in both} == alone, "records of one shape are found for several"
    assert all(task.calls == () for task in tasks_of(pooled, "x=1,3,8,8"))
