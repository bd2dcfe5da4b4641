"""What follows from shapes and constants is gone before the import, and the numbers stay onnxruntime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.errors import UsageError
from toolchain.models.folding.fold import fold
from toolchain.models.folding.walk import Walk


def nodes_of(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in fold(model, "test").model.graph.node]


def channel_shuffle() -> onnx.ModelProto:
    """Return what TorchScript's exporter writes for `x.view(n, 2, c // 2, h, w).transpose(1, 2)`."""
    nodes = []
    for axis, name in enumerate("nchw"):
        nodes += [
            helper.make_node("Shape", ["x"], [f"s{name}"]),
            helper.make_node("Constant", [], [f"a{name}"], value_int=axis),
            helper.make_node("Gather", [f"s{name}", f"a{name}"], [name], axis=0),
            helper.make_node("Unsqueeze", [name, "zero"], [f"{name}1"]),
        ]
    nodes += [
        helper.make_node("Div", ["c", "two"], ["half"]),
        helper.make_node("Unsqueeze", ["half", "zero"], ["half1"]),
        helper.make_node("Concat", ["n1", "two1", "half1", "h1", "w1"], ["wide"], axis=0),
        helper.make_node("Reshape", ["x", "wide"], ["groups"]),
        helper.make_node("Transpose", ["groups"], ["turned"], perm=[0, 2, 1, 3, 4]),
        helper.make_node("Concat", ["n1", "c1", "h1", "w1"], ["back"], axis=0),
        helper.make_node("Reshape", ["turned", "back"], ["y"]),
    ]
    weights = {"zero": np.array([0]), "two": np.array(2), "two1": np.array([2])}
    return graph_of(nodes, [tensor_info("x", (1, 6, 4, 5))], [tensor_info("y", (1, "c", "h", "w"))], weights)


def test_a_channel_shuffle_is_three_nodes(tmp_path: Path) -> None:
    assert nodes_of(channel_shuffle()) == ["Reshape", "Transpose", "Reshape"]
    assert_same(loaded(channel_shuffle(), tmp_path))


def test_computed_pads_are_constants(tmp_path: Path) -> None:
    zero = helper.make_tensor("zero", TensorProto.INT64, [1], [0])
    graph = graph_of(
        [
            helper.make_node("Cast", ["halves"], ["numbers"], to=TensorProto.INT64),
            helper.make_node("ConstantOfShape", ["four"], ["before"], value=zero),
            helper.make_node("Concat", ["before", "numbers"], ["pads"], axis=0),
            helper.make_node("Pad", ["x", "pads"], ["y"], mode="reflect"),
        ],
        [tensor_info("x", (1, 2, 6, 6))],
        [tensor_info("y", (1, 2, None, None))],
        {"halves": np.array([0, 0, 3, 2], np.float32), "four": np.array([4])},
    )
    assert nodes_of(graph) == ["Pad"]
    assert_same(loaded(graph, tmp_path))


def test_a_large_constant_is_not_computed() -> None:
    graph = graph_of(
        [
            helper.make_node("ConstantOfShape", ["extents"], ["zeros"]),
            helper.make_node("Add", ["zeros", "x"], ["y"]),
        ],
        [tensor_info("x", (1,))],
        [tensor_info("y", (1024, 1024))],
        {"extents": np.array([1024, 1024])},
    )
    assert nodes_of(graph) == ["ConstantOfShape", "Add"]


def test_random_numbers_are_not_folded() -> None:
    graph = graph_of(
        [
            helper.make_node("RandomNormal", [], ["noise"], shape=[3]),
            helper.make_node("Add", ["noise", "x"], ["y"]),
        ],
        [tensor_info("x", (3,))],
        [tensor_info("y", (3,))],
        {},
    )
    assert nodes_of(graph) == ["RandomNormal", "Add"]


def test_misfit_names_the_node() -> None:
    graph = graph_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        [tensor_info("x", (2, 3))],
        [tensor_info("y", None)],
        {"w": np.zeros((4, 5), np.float32)},
    )
    with pytest.raises(UsageError, match="the shapes don't fit together") as refused:
        fold(graph, "test")
    assert "product" in str(refused.value)


@pytest.mark.slow
def test_each_node_is_seen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the chains: work grows with the number of nodes, not with its square."""
    nodes, last, seen = [], "x", 0
    walk_over = Walk.node

    def counted(*arguments: Any) -> None:
        nonlocal seen
        seen += 1
        walk_over(*arguments)

    monkeypatch.setattr(Walk, "node", counted)
    for number in range(300):
        nodes += [
            helper.make_node("Shape", [last], [f"s{number}"]),
            helper.make_node("Gather", [f"s{number}", "zero"], [f"g{number}"]),
            helper.make_node("Concat", [f"g{number}", "three"], [f"c{number}"], axis=0),
            helper.make_node("Reshape", [last, f"c{number}"], [f"y{number}"]),
        ]
        last = f"y{number}"
    graph = graph_of(
        nodes,
        [tensor_info("x", (2, 3))],
        [tensor_info(last, (2, 3))],
        {"zero": np.array([0]), "three": np.array([3])},
    )
    assert nodes_of(graph) == ["Reshape"] * 300
    assert seen == len(nodes)


@pytest.mark.slow
@pytest.mark.parametrize("places", [[0, 4, 5], [[0, 0], [1, 1], [1, 2]]], ids=["flat", "by axis"])
def test_sparse_weights_are_stored_with_their_zeros(places: list[Any], tmp_path: Path) -> None:
    graph = graph_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [tensor_info("x", (2, 3))],
        [tensor_info("y", (2, 3))],
        {},
    )
    values = helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    indices = numpy_helper.from_array(np.array(places, np.int64), "w_indices")
    graph.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3, 3]))
    model = loaded(graph, tmp_path)
    assert [spec.name for spec in model.inputs] == ["x"]
    assert_same(model)
