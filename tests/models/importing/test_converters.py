"""Operators that Relax says otherwise than ONNX: the numbers are onnxruntime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded

SHAPE = (2, 3, 4)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("opset", [10, 17])
def test_the_number_of_the_largest_is_read(opset: int, tmp_path: Path) -> None:
    graph = graph_of(
        [
            helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=1),
            helper.make_node("ReduceMean", ["values"], ["y"], axes=[1], keepdims=0),
        ],
        [tensor_info("x", SHAPE)],
        [tensor_info("y", (2, 4))],
        {"k": np.array([2], np.int64)},
        opset=opset,
    )
    assert_same(loaded(graph, tmp_path))


@pytest.mark.slow
def test_places_are_counted_from_the_end(tmp_path: Path) -> None:
    places = np.array([-3, -2, -1, 2]).reshape(1, 4, 1, 1)
    graph = graph_of(
        [helper.make_node("ScatterElements", ["x", "places", "new"], ["y"], axis=1, reduction="max")],
        [tensor_info("x", (2, 3, 4, 5)), tensor_info("new", (1, 4, 1, 1))],
        [tensor_info("y", (2, 3, 4, 5))],
        {"places": places},
        opset=18,
    )
    assert_same(loaded(graph, tmp_path))
