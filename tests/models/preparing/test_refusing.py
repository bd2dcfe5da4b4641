"""What cannot be compiled is refused by name, with the best way around it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import classifier, graph_of, tensor_info
from tests.models.rewrites.judge import loaded, refused
from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.options import ModelOptions

OPTIONS = ModelOptions()


def test_unsupported_operators_are_all_named(tmp_path: Path) -> None:
    extra = [
        helper.make_node("Constant", [], ["flat"], value_ints=[-1]),
        helper.make_node("Cast", ["logits"], ["bytes"], to=TensorProto.UINT8),
        helper.make_node("Reshape", ["bytes", "flat"], ["line"]),
        helper.make_node("ImageDecoder", ["line"], ["q1"], "first"),
        helper.make_node("Reshape", ["q1", "flat"], ["q1_line"]),
        helper.make_node("ImageDecoder", ["q1_line"], ["q2"]),
        helper.make_node("Relu", ["q2"], ["q3"], "mine", domain="my.own"),
    ]
    graph = classifier(extra=extra, extra_outputs=[tensor_info("q3", (1,))], opset=20)
    graph.opset_import.append(helper.make_opsetid("my.own", 1))
    with pytest.raises(
        UsageError, match=r"network.onnx: unsupported operators: ImageDecoder \(first, q2\); my.own.Relu"
    ):
        loaded(graph, tmp_path)
    found = inspect_model(str(tmp_path / "network.onnx"), OPTIONS)
    assert found["unsupported"] == [
        {"op": "ImageDecoder", "nodes": ["first", "q2"]},
        {"op": "my.own.Relu", "nodes": ["mine"]},
    ]
    assert found["operators"]["ImageDecoder"] == 2


def test_nothing_to_cut_at(tmp_path: Path) -> None:
    graph = graph_of(
        [helper.make_node("NonZero", ["x"], ["y"], "where")],
        [tensor_info("x", (2, 3))],
        [tensor_info("y", (2, None), TensorProto.INT64)],
        {},
    )
    error = refused(graph, tmp_path)
    assert error.hint == "export the network without this node"


def test_a_reshape_that_depends_on_data_is_named(tmp_path: Path) -> None:
    graph = graph_of(
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("ReduceSum", ["x", "all"], ["sum"], keepdims=0),
            helper.make_node("Cast", ["sum"], ["number"], to=TensorProto.INT64),
            helper.make_node("Reshape", ["number", "one"], ["row"]),
            helper.make_node("Concat", ["row", "rest"], ["shape"], axis=0),
            helper.make_node("Reshape", ["r", "shape"], ["z"], "bend"),
            helper.make_node("Conv", ["z", "k"], ["y"]),
        ],
        [tensor_info("x", (1, 2, 3, 4))],
        [tensor_info("y", None)],
        {
            "all": np.array([0, 1, 2, 3]),
            "one": np.array([1]),
            "rest": np.array([-1, 4, 4]),
            "k": np.ones((1, 1, 1, 1), np.float32),
        },
    )
    graph.graph.output[0].type.tensor_type.shape.SetInParent()
    for _ in range(4):
        graph.graph.output[0].type.tensor_type.shape.dim.add()
    error = refused(graph, tmp_path)
    assert "Reshape (node 'bend') makes a tensor whose shape depends on the data" in error.message
    assert "--outputs r,shape" in str(error.hint)
