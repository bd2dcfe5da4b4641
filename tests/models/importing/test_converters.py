"""Operators that Relax says otherwise than ONNX: the numbers are onnxruntime's."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper

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
