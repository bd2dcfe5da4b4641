"""Old operator sets and spellings, in the one way that importer and reference read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.models.graphs import classifier, graph_of, tensor_info
from tests.models.original import outputs_of
from tests.models.rewrites.judge import loaded
from toolchain.errors import UsageError
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.onnx_graph import all_nodes
from toolchain.models.preparing.modernise import NEWEST_OPSET, WRITTEN_OPSET, modernise


@pytest.mark.slow
@pytest.mark.parametrize("opset", [6, 7, 9, 11, 13, 18, 21])
def test_old_and_new_operator_sets(tmp_path: Path, opset: int) -> None:
    model = loaded(classifier(opset=opset), tmp_path)
    assert model.softmax_outputs == {"prob"}
    inputs = sample_inputs(model)
    newest = reference_outputs(loaded(classifier(), tmp_path), inputs)["prob"]
    np.testing.assert_allclose(reference_outputs(model, inputs)["prob"], newest, atol=1e-6)


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        ([NEWEST_OPSET + 1], f"known are 1 to {NEWEST_OPSET}"),
        ([2**40], "has operators of set 1099511627776"),
        ([0], "has operators of set 0"),
        ([-1], "has operators of set -1"),
        ([], "declares no operator set"),
        ([17, 13], r"declares several operator sets of ONNX \(17, 13\)"),
        ([17, 13, 17, 13], r"declares several operator sets of ONNX \(17, 13, 17, 13\)"),
        ([3], "cannot be brought to operator set 7"),
    ],
)
def test_operator_sets_that_nobody_knows(tmp_path: Path, versions: list[int], says: str) -> None:
    graph = classifier()
    del graph.opset_import[:]
    graph.opset_import.extend(helper.make_opsetid("", version) for version in versions)
    with pytest.raises(UsageError, match=says) as caught:
        loaded(graph, tmp_path)
    assert caught.value.hint and caught.value.exit_code == 2


@pytest.mark.parametrize(
    "sets", [[("", 17), ("", 17)], [("", 17), ("ai.onnx", 17)], [("", 12), ("ai.onnx", 13)]]
)
def test_a_set_that_is_declared_twice_is_one(sets: list[tuple[str, int]], tmp_path: Path) -> None:
    """A Softmax means another thing since set 13: onnxruntime takes the last."""
    x, y = tensor_info("x", (2, 3, 4)), tensor_info("y", (2, 3, 4))
    graph = graph_of([helper.make_node("Softmax", ["x"], ["y"])], [x], [y], {})
    del graph.opset_import[:]
    graph.opset_import.extend(
        helper.make_opsetid(*each) for each in (*sets, ("ai.onnx.ml", 3), ("ai.onnx.ml", 3))
    )
    model = loaded(graph, tmp_path)
    assert len(modernise(model.onnx, "network.onnx").opset_import) == 2
    inputs = sample_inputs(model)
    np.testing.assert_allclose(reference_outputs(model, inputs)["y"], outputs_of(graph, inputs)[0], atol=1e-6)
    np.testing.assert_allclose(reference_outputs(model, inputs)["y"].sum(-1), 1, atol=1e-6)


def test_models_that_onnx_merged_are_read(tmp_path: Path) -> None:
    first, second = (
        graph_of([helper.make_node(op, [a], [b])], [tensor_info(a, (1, 4))], [tensor_info(b, (1, 4))], {})
        for op, a, b in (("Relu", "x", "h"), ("Neg", "g", "y"))
    )
    merged = onnx.compose.merge_models(first, second, [("h", "g")])
    assert len(merged.opset_import) == 2, "the same set twice"
    model = loaded(merged, tmp_path)
    assert [node.op_type for node in model.onnx.graph.node] == ["Relu", "Neg"]
    assert reference_outputs(model, sample_inputs(model))["y"].max() <= 0


def says_little(name: str, code: int | None, shape: tuple[int, ...] | None) -> onnx.ValueInfoProto:
    """A declaration without elements (None: not even that it is a tensor) or without a shape."""
    value = onnx.ValueInfoProto(name=name)
    if code is not None:
        value.type.tensor_type.elem_type = code
        for extent in shape or ():
            value.type.tensor_type.shape.dim.add(dim_value=extent)
    return value


@pytest.mark.parametrize("where", ["output", "value_info", "branch"])
@pytest.mark.parametrize(
    ("code", "shape"),
    [(None, None), (0, None), (1, None), (0, (1, 4))],
    ids=["bare", "nothing", "float", "4"],
)
def test_a_type_that_says_too_little_follows_from_the_nodes(
    where: str, code: int | None, shape: tuple[int, ...] | None, tmp_path: Path
) -> None:
    def branch(operator: str) -> onnx.GraphProto:
        graph = helper.make_graph([helper.make_node(operator, ["x"], [operator])], operator, [], [])
        graph.output.append(says_little(operator, code, shape))
        return graph

    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Neg", ["h"], ["y"])]
    if where == "branch":
        inner = {"then_branch": branch("Neg"), "else_branch": branch("Relu")}
        nodes = [helper.make_node("If", ["yes"], ["y"], **inner)]
    graph = graph_of(nodes, [tensor_info("x", (1, 4))], [tensor_info("y", (1, 4))], {"yes": np.array(True)})
    if where == "output":
        graph.graph.output[0].CopyFrom(says_little("y", code, shape))
    if where == "value_info":
        graph.graph.value_info.append(says_little("h", code, shape))
    model = loaded(graph, tmp_path)
    assert [(spec.shape, spec.dtype) for spec in model.outputs] == [((1, 4), "float32")]
    assert reference_outputs(model, sample_inputs(model))["y"].shape == (1, 4)


def test_an_output_without_a_shape_hides_no_other_error(tmp_path: Path) -> None:
    graph = graph_of(
        [helper.make_node("NonZero", ["x"], ["y"], "places")], [tensor_info("x", (1, 4))], [], {}
    )
    graph.graph.output.append(says_little("y", onnx.TensorProto.INT64, None))
    with pytest.raises(UsageError, match=r"NonZero \(node 'places'\) makes a tensor whose shape depends"):
        loaded(graph, tmp_path)


def test_a_files_own_functions_are_written_out() -> None:
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = [helper.make_node("Add", ["a", "a"], ["t"]), helper.make_node("Neg", ["t"], ["b"])]
    twice = helper.make_function("own", "Twice", ["a"], ["b"], body, sets[:1])
    model = graph_of(
        [helper.make_node("Twice", ["x"], ["h"], domain="own"), helper.make_node("Relu", ["h"], ["y"])],
        [tensor_info("x", (2,))],
        [tensor_info("y", (2,))],
        {},
    )
    del model.opset_import[:]
    model.opset_import.extend(sets)
    model.functions.append(twice)
    modern = modernise(model, "net.onnx")
    assert [node.op_type for node in modern.graph.node] == ["Add", "Neg", "Relu"]
    assert not modern.functions and len(model.functions) == 1, "the given one is left alone"
    (y,) = outputs_of(modern, {"x": np.array([-3, 4], np.float32)})
    np.testing.assert_array_equal(y, [6, 0])


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("value_int", 7, np.array(7, np.int64)),
        ("value_ints", [7, -8], np.array([7, -8], np.int64)),
        ("value_float", 0.5, np.array(0.5, np.float32)),
        ("value_floats", [0.5, 1e-9], np.array([0.5, 1e-9], np.float32)),
    ],
)
def test_a_constant_is_a_tensor_however_it_was_spelled(
    attribute: str, value: object, expected: np.ndarray
) -> None:
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], **{attribute: value})],
        "branch",
        [],
        [onnx.ValueInfoProto(name="c")],
    )
    model = graph_of(
        [helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)],
        [tensor_info("flag", (), onnx.TensorProto.BOOL)],
        [tensor_info("y", None)],
        {},
    )
    for node in list(all_nodes(modernise(model, "net.onnx").graph))[1:]:
        (found,) = node.attribute
        array = numpy_helper.to_array(found.t)
        assert found.name == "value" and array.dtype == expected.dtype and array.shape == expected.shape
        np.testing.assert_array_equal(array, expected)


def test_a_file_of_another_domain_alone_gets_a_standard_set() -> None:
    model = graph_of(
        [helper.make_node("Scaler", ["x"], ["y"], domain="ai.onnx.ml")],
        [tensor_info("x", (1, 2))],
        [tensor_info("y", (1, 2))],
        {},
    )
    model.opset_import[0].domain = "ai.onnx.ml"
    model.opset_import[0].version = 3
    modern = modernise(model, "net.onnx")
    assert [(each.domain, each.version) for each in modern.opset_import] == [
        ("ai.onnx.ml", 3),
        ("", WRITTEN_OPSET),
    ]


def test_batchwise_cells_are_turned() -> None:
    weights = {"w": np.zeros((1, 4, 3), np.float32), "r": np.zeros((1, 4, 4), np.float32)}
    node = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=4, layout=1)
    model = graph_of([node], [tensor_info("x", (2, 5, 3))], [tensor_info("y", (2, 5, 1, 4))], weights)
    kinds = [node.op_type for node in modernise(model, "net.onnx").graph.node]
    assert kinds == ["Transpose", "RNN", "Transpose"]
