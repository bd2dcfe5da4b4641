"""What cannot be compiled is refused by name, with the best way around it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import Dimensions, classifier, graph_of, tensor_info
from tests.models.rewrites.judge import loaded, refused
from toolchain.errors import UsageError
from toolchain.models.folding.fold import fold
from toolchain.models.folding.folded import Folded
from toolchain.models.importing.importer import check_compiles, inputs_to_freeze, ways_to_cut
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


def test_gives_no_cut_hint_without_cut_point(tmp_path: Path) -> None:
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


def folded(graph: onnx.ModelProto) -> Folded:
    return fold(graph, "net.onnx")


def cropped(size: Dimensions, *, also: bool = True) -> onnx.ModelProto:
    """Return `x` cut off where the input `end` says; with `also`, a second output that needs none of it."""
    nodes = [
        helper.make_node("Slice", ["x", "begin", "stop"], ["y"], "crop here"),
        helper.make_node("Identity", ["end one"], ["stop"]),
        helper.make_node("Relu", ["x"], ["z"]),
    ]
    nodes = [nodes[1], nodes[0], *nodes[2:]]
    outputs = [tensor_info("y", (None,)), *([tensor_info("z", (9,))] if also else [])]
    inputs = [tensor_info("x", (9,)), tensor_info("end one", size, TensorProto.INT64)]
    return graph_of(nodes, inputs, outputs, {"begin": np.array([2])})


def test_a_small_input_that_decides_a_shape_is_to_be_made_a_constant() -> None:
    graph = cropped((1,))
    assert inputs_to_freeze(folded(graph)) == ["end one"]
    assert ways_to_cut(folded(graph), graph) == []
    with pytest.raises(UsageError, match=r"Slice \(node 'crop here'\)") as caught:
        check_compiles(folded(graph), graph, "net.onnx")
    assert caught.value.hint == ("if 'end one' never changes, make it a constant: --input-value 'end one'=V")


@pytest.mark.parametrize(("size", "small"), [((16,), True), ((17,), False), ((4, 5), False), ((), True)])
def test_never_suggests_freezing_a_large_input(size: tuple[int, ...], small: bool) -> None:
    assert inputs_to_freeze(folded(cropped(size))) == (["end one"] if small else [])


def test_hints_at_cut_instead_of_freezing_an_image() -> None:
    graph = cropped((400,))
    assert ways_to_cut(folded(graph), graph) == ["z"]
    with pytest.raises(UsageError) as caught:
        check_compiles(folded(graph), graph, "net.onnx")
    assert str(caught.value.hint).endswith("do the rest in your own program: --outputs z")


def test_never_suggests_freezing_the_only_input() -> None:
    """Nothing would be left to compute."""
    graph = graph_of(
        [helper.make_node("ConstantOfShape", ["n"], ["y"], "fill")],
        [tensor_info("n", (1,), TensorProto.INT64)],
        [tensor_info("y", (None,))],
        {},
    )
    assert inputs_to_freeze(folded(graph)) == []


def test_data_dependent_size_has_no_freeze_hint() -> None:
    graph = graph_of(
        [helper.make_node("Compress", ["x", "keep"], ["y"], axis=0)],
        [tensor_info("x", (3,)), tensor_info("keep", (3,), TensorProto.BOOL)],
        [tensor_info("y", (None,))],
        {},
    )
    assert inputs_to_freeze(folded(graph)) == []


def test_names_five_of_many_nodes() -> None:
    nodes = [
        helper.make_node("Strange", ["x"], [f"y{each}"], f"n{each}", domain="my.own") for each in range(8)
    ]
    outputs = [tensor_info(f"y{each}", (2,)) for each in range(8)]
    graph = graph_of(nodes, [tensor_info("x", (2,))], outputs, {})
    graph.opset_import.append(helper.make_opsetid("my.own", 1))
    with pytest.raises(UsageError, match=r"my\.own\.Strange \(n0, n1, n2, n3, n4 and 3 more\)"):
        check_compiles(folded(graph), graph, "net.onnx")


def test_names_with_control_characters_are_escaped() -> None:
    graph = cropped((1,))
    graph.graph.node[1].name = "red\x1b[31m"
    with pytest.raises(UsageError) as caught:
        check_compiles(folded(graph), graph, "net.onnx")
    assert str(caught.value).isprintable() and "red" in caught.value.message


def test_accepts_compilable_graph() -> None:
    graph = graph_of(
        [helper.make_node("Relu", ["x"], ["y"])], [tensor_info("x", (2,))], [tensor_info("y", (2,))], {}
    )
    check_compiles(folded(graph), graph, "net.onnx")
    assert ways_to_cut(folded(graph), graph) == inputs_to_freeze(folded(graph)) == []
