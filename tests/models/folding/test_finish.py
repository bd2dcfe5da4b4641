"""The folded graph: what its outputs need, under their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.models.graphs import classifier, graph_of, tensor_info
from tests.models.original import outputs_of
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.models.folding.fold import fold
from toolchain.models.folding.folded import Folded
from toolchain.models.preparing.tensor_types import dimensions


def test_ignores_problem_of_unused_node(tmp_path: Path) -> None:
    extra = [
        helper.make_node("NonZero", ["prob"], ["z"]),
        helper.make_node("Relu", ["z"], ["rz"], domain="my"),
    ]
    graph = classifier(extra=extra)
    graph.opset_import.append(helper.make_opsetid("my", 1))
    assert [spec.name for spec in loaded(graph, tmp_path).outputs] == ["prob"]


def test_outputs_keep_their_names(tmp_path: Path) -> None:
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


def test_constant_output_with_reader_gets_its_own_node(tmp_path: Path) -> None:
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


def folded(nodes: list[onnx.NodeProto], outputs: list[str], **weights: np.ndarray) -> Folded:
    ends = [tensor_info(name, None) for name in outputs]
    return fold(graph_of(nodes, [tensor_info("x", (2, 3))], ends, weights), "net.onnx")


def test_drops_unused_nodes_and_weights() -> None:
    nodes = [
        helper.make_node("Mul", ["x", "kept"], ["y"]),
        helper.make_node("Add", ["x", "dropped"], ["z"]),
        helper.make_node("Relu", ["z"], ["w"]),
    ]
    graph = folded(nodes, ["y"], kept=np.ones(3, np.float32), dropped=np.ones(3, np.float32)).model.graph
    assert [node.op_type for node in graph.node] == ["Mul"]
    assert [tensor.name for tensor in graph.initializer] == ["kept"]
    assert [value.name for value in graph.input] == ["x"]


def test_inner_types_are_in_value_info_and_output_types_in_outputs() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    graph = folded(nodes, ["y"]).model.graph
    assert [value.name for value in graph.value_info] == ["a"]
    assert dimensions(graph.value_info[0]) == dimensions(graph.output[0]) == (2, 3)


@pytest.mark.parametrize("taken", ["y.value", "y.value_"])
def test_new_name_of_constant_output_is_unused(taken: str) -> None:
    nodes = [
        helper.make_node("Add", ["one", "one"], ["y"]),
        helper.make_node("Relu", ["x"], ["y.value"]),
        helper.make_node("Mul", ["y.value", "y"], ["z"]),
    ]
    if taken == "y.value_":
        nodes.insert(2, helper.make_node("Neg", ["y.value"], ["y.value_"]))
        nodes[-1].input[0] = "y.value_"
    model = folded(nodes, ["y", "z"], one=np.ones(3, np.float32)).model
    for value, name in zip(model.graph.output, ("y", "z"), strict=True):
        assert value.name == name
    onnx.checker.check_model(model, full_check=True)
    x = np.array([[-1, 2, 3], [4, 5, -6]], np.float32)
    y, z = outputs_of(model, {"x": x})
    sign = -1 if taken == "y.value_" else 1
    np.testing.assert_array_equal(y, [2, 2, 2])
    np.testing.assert_array_equal(z, sign * np.maximum(x, 0) * 2)


def test_data_dependent_node_is_a_problem_only_if_needed() -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["places"], "where"), helper.make_node("Relu", ["x"], ["y"])]
    assert folded(nodes, ["y"]).problems == []
    (problem,) = folded(nodes, ["y", "places"]).problems
    assert problem.node.name == "where" and "depends on the data" in problem.reason


def test_only_first_node_of_a_chain_is_reported() -> None:
    """What reads a tensor of no known shape has none either, and is not to blame."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"], "where"),
        helper.make_node("Cast", ["places"], ["f"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Relu", ["f"], ["y"], "relu"),
    ]
    assert [problem.node.name for problem in folded(nodes, ["y"]).problems] == ["where"]


def test_a_frozen_input_is_a_stored_tensor() -> None:
    model = graph_of(
        [helper.make_node("Mul", ["x", "scale"], ["y"])],
        [tensor_info("x", (2,)), tensor_info("scale", ())],
        [tensor_info("y", (2,))],
        {},
    )
    found = fold(model, "net.onnx", {"scale": np.array(3, np.float32)}).model
    assert [value.name for value in found.graph.input] == ["x"]
    np.testing.assert_array_equal(outputs_of(found, {"x": np.array([1, 2], np.float32)})[0], [3, 6])


def test_the_operator_sets_and_the_names_stay() -> None:
    model = graph_of(
        [helper.make_node("Relu", ["x"], ["y"])], [tensor_info("x", (2,))], [tensor_info("y", (2,))], {}
    )
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.producer_name = "somebody"
    found = fold(model, "net.onnx").model
    assert found.opset_import == model.opset_import and found.ir_version == model.ir_version
    assert (found.graph.name, found.producer_name) == ("test", "somebody")
