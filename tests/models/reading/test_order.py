"""Nodes of files in an order that the standard does not allow, and that onnxruntime sorts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded, refused
from toolchain.models.reading.onnx_file import put_in_order

node = helper.make_node


def network(nodes: list[onnx.NodeProto], *names: str) -> onnx.ModelProto:
    """Return nodes on `x` whose results `names` are the outputs."""
    outputs = [tensor_info(name, (1, 8)) for name in names or ["y"]]
    return graph_of(nodes, [tensor_info("x", (1, 8))], outputs, {"w": np.ones((1, 8), np.float32)})


def sorted_outputs(model: onnx.ModelProto) -> list[str]:
    put_in_order(model, "test")
    return [each.output[0] for each in model.graph.node]


def test_each_node_comes_behind_what_it_reads() -> None:
    nodes = [node("Relu", ["a"], ["y"]), node("Neg", ["x"], ["b"]), node("Add", ["b", "w"], ["a"])]
    assert sorted_outputs(network(nodes)) == ["b", "a", "y"]


def test_sorted_nodes_keep_their_order() -> None:
    nodes = [node("Neg", ["x"], [name]) for name in "cab"] + [node("Sum", ["a", "b", "c"], ["y"])]
    model = network(nodes)
    before = model.SerializeToString(deterministic=True)
    assert sorted_outputs(model) == ["c", "a", "b", "y"]
    assert model.SerializeToString(deterministic=True) == before


def test_what_a_branch_reads_from_outside_comes_before_it() -> None:
    branch = helper.make_graph(
        [node("Neg", ["inner"], ["r"]), node("Relu", ["late"], ["inner"])],
        "branch",
        [],
        [tensor_info("r", (1, 8))],
    )
    nodes = [
        node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
        node("Abs", ["x"], ["late"]),
    ]
    model = network(nodes)
    model.graph.input.append(tensor_info("c", (), TensorProto.BOOL))
    assert sorted_outputs(model) == ["late", "y"]
    assert [each.op_type for each in model.graph.node[1].attribute[0].g.node] == ["Relu", "Neg"]


def test_the_nodes_of_a_function_are_sorted() -> None:
    model = network([node("twice", ["x"], ["y"], domain="own")])
    model.opset_import.append(helper.make_opsetid("own", 1))
    body = [node("Add", ["d", "d"], ["r"]), node("Abs", ["v"], ["d"])]
    model.functions.append(
        helper.make_function("own", "twice", ["v"], ["r"], body, [helper.make_opsetid("", 17)])
    )
    put_in_order(model, "test")
    assert [each.op_type for each in model.functions[0].node] == ["Abs", "Add"]


@pytest.mark.slow
def test_a_file_out_of_order_computes_what_onnxruntime_does(tmp_path: Path) -> None:
    nodes = [node("Relu", ["a"], ["y"]), node("Add", ["x", "w"], ["a"])]
    assert_same(loaded(network(nodes), tmp_path))


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([node("Add", ["x", "gone"], ["y"], "sum")], "Add (node 'sum') reads 'gone', which nothing computes"),
        (
            [node("Neg", ["b"], ["a"], "one"), node("Neg", ["a"], ["b"], "two"), node("Relu", ["b"], ["y"])],
            "Neg (node 'one'), Neg (node 'two') wait for each other",
        ),
        ([node("Add", ["y", "x"], ["y"], "self")], "Add (node 'self') waits for itself"),
        (
            [node("Neg", ["x"], ["y"], "one"), node("Abs", ["x"], ["y"], "two")],
            "Abs (node 'two') computes 'y', which is the result of Neg (node 'one'), too",
        ),
        (
            [node("Neg", ["x"], ["w"], "one")],
            "Neg (node 'one') computes 'w', which is an input or constant, too",
        ),
        ([node("Neg", ["x"], ["z"])], "nothing computes its output 'y'"),
    ],
)
def test_refuses_unsortable_graph(nodes: list[onnx.NodeProto], says: str, tmp_path: Path) -> None:
    error = refused(network(nodes), tmp_path)
    assert says in error.message
    assert "export the network again" in error.hint
