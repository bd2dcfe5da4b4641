"""The folded graph: what its outputs need, under their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.models.graphs import classifier, graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.models.folding.fold import fold


def test_what_no_output_needs_is_no_obstacle(tmp_path: Path) -> None:
    extra = [
        helper.make_node("NonZero", ["prob"], ["z"]),
        helper.make_node("Relu", ["z"], ["rz"], domain="my"),
    ]
    graph = classifier(extra=extra)
    graph.opset_import.append(helper.make_opsetid("my", 1))
    assert [spec.name for spec in loaded(graph, tmp_path).outputs] == ["prob"]


def test_outputs_keep_their_names_whatever_they_are(tmp_path: Path) -> None:
    graph = graph_of(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Identity", ["r"], ["same"]),
            helper.make_node("Identity", ["x"], ["through"]),
            helper.make_node("Shape", ["x"], ["extents"]),
        ],
        [tensor_info("x", (2, 3))],
        [
            tensor_info("same", (2, 3)),
            tensor_info("through", (2, 3)),
            tensor_info("extents", (2,), TensorProto.INT64),
            tensor_info("r", (2, 3)),
        ],
        {},
    )
    model = loaded(graph, tmp_path)
    assert [spec.name for spec in model.outputs] == ["same", "through", "extents", "r"]
    assert_same(model)


def test_a_constant_output_that_is_read_too_is_made_by_a_node_of_its_own(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["one", "one"], ["two"]),
        helper.make_node("Mul", ["x", "two"], ["y"]),
    ]
    outputs = [tensor_info("two", (1,)), tensor_info("y", (2, 3))]
    graph = helper.make_graph(nodes, "net", [tensor_info("x", (2, 3))], outputs, [
        numpy_helper.from_array(np.ones(1, np.float32), "one")
    ])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    folded = fold(model, "test").model
    onnx.checker.check_model(folded)
    assert not any(node.input[0] == node.output[0] for node in folded.graph.node)
    assert_same(loaded(model, tmp_path))
