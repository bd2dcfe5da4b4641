"""`If`, `Loop` and `Scan` that shapes or constants decide are written flat, with onnxruntime's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.errors import UsageError
from toolchain.models.folding import fold as control
from toolchain.models.folding.fold import fold

INT, BOOL = TensorProto.INT64, TensorProto.BOOL


def node(operator: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    """Return a node; the names stand between blanks, `_` for one that is left out."""
    names = [["" if name == "_" else name for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(operator, *names, **attributes)


def body(
    nodes: list[onnx.NodeProto], inputs: dict[str, int], outputs: list[str], **stored: object
) -> onnx.GraphProto:
    return helper.make_graph(
        nodes,
        "body",
        [tensor_info(name, None if code == TensorProto.FLOAT else (), code) for name, code in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()],
    )


def model(nodes: list[onnx.NodeProto], opset: int = 17, **stored: object) -> onnx.ModelProto:
    return graph_of(
        nodes,
        [tensor_info("x", (3, 4))],
        [tensor_info("y", (None, None))],
        {name: np.asarray(value) for name, value in stored.items()},
        opset,
    )


def kinds(graph: onnx.ModelProto) -> set[str]:
    return {each.op_type for each in fold(graph, "test").model.graph.node}


def test_inlines_nested_branches_decided_by_shapes(tmp_path: Path) -> None:
    """Names are captured from two levels up; the branches that are not taken use the same ones."""
    inner = body([node("Mul", "r b", "t")], {}, ["t"])
    inner_else = body([node("Sub", "r b", "t")], {}, ["t"])
    then = body(
        [node("Add", "x b", "r"), node("If", "no", "u", then_branch=inner, else_branch=inner_else)],
        {},
        ["u"],
        b=np.float32(2),
    )
    other = body([node("Neg", "x", "r"), node("Abs", "r", "u")], {}, ["u"])
    graph = model(
        [
            node("Relu", "x", "q"),
            node("Shape", "x", "s"),
            node("Gather", "s zero", "rows"),
            node("Equal", "rows three", "is"),
            node("If", "is", "v", then_branch=then, else_branch=other),
            node("Sum", "q v c", "y"),
        ],
        zero=0,
        three=3,
        no=False,
        c=np.float32(5),
    )
    assert kinds(graph) == {"Relu", "Add", "Sub", "Sum"}
    assert_same(loaded(graph, tmp_path))


def test_branch_names_do_not_clash_with_outer_names() -> None:
    """The checker forbids it and onnxruntime does not: a name inside hides the one outside."""
    then = body([node("Add", "x b", "r"), node("Mul", "r b", "t")], {}, ["t"], b=np.float32(2))
    graph = model(
        [
            node("Relu", "x", "r"),
            node("If", "yes", "t", then_branch=then, else_branch=then),
            node("Sum", "r t b", "y"),
        ],
        yes=True,
        b=np.float32(5),
    )
    folded = fold(graph, "test").model
    onnx.checker.check_model(folded)
    x = np.array([[-1, 0, 1, 2]] * 3, np.float32)
    found = ReferenceEvaluator(folded).run(None, {"x": x})[0]
    np.testing.assert_array_equal(found, np.maximum(x, 0) + (x + 2) * 2 + 5)


def test_branch_may_return_captured_tensor(tmp_path: Path) -> None:
    then = body([node("Identity", "x", "o")], {}, ["o"])
    other = body([node("Neg", "x", "t")], {}, ["t"])
    graph = model(
        [node("If", "yes", "u", then_branch=then, else_branch=other), node("Relu", "u", "y")],
        yes=np.array([True]),
    )
    assert kinds(graph) == {"Relu"}
    assert_same(loaded(graph, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("trips", [1, 3])
def test_unrolls_loop_with_carried_and_stacked_values(tmp_path: Path, opset: int, trips: int) -> None:
    once = body(
        [
            node("Cast", "i", "f", to=TensorProto.FLOAT),
            node("Add", "state f", "sum"),
            node("Mul", "sum x", "product"),
            node("ReduceMean", "product", "row", axes=[0], keepdims=0),
            node("Identity", "going", "still"),
        ],
        {"i": INT, "going": BOOL, "state": TensorProto.FLOAT}, ["still", "product", "row"],
    )  # fmt: skip
    nodes = [node("Loop", "trips yes x", "last rows", body=once), node("MatMul", "rows turned", "y")]
    nodes.insert(1, node("Transpose", "last", "turned", perm=[1, 0]))
    graph = model(nodes, opset, trips=trips, yes=True)
    assert "Loop" not in kinds(graph)
    assert_same(loaded(graph, tmp_path))


@pytest.mark.slow
def test_unrolls_loop_ended_by_its_condition(tmp_path: Path) -> None:
    once = body(
        [
            node("Add", "count one", "next"),
            node("Less", "next four", "still"),
            node("Concat", "state x", "longer", axis=0),
        ],
        {"i": INT, "going": BOOL, "count": INT, "state": TensorProto.FLOAT}, ["still", "next", "longer"],
        one=1, four=4,
    )  # fmt: skip
    graph = model([node("Loop", "_ yes zero x", "n y", body=once)], yes=True, zero=0)
    assert kinds(graph) == {"Concat", "Identity"}
    assert fold(graph, "test").model.graph.output[0].type.tensor_type.shape.dim[0].dim_value == 15
    assert_same(loaded(graph, tmp_path))


def test_the_weights_of_a_loop_are_stored_once(tmp_path: Path) -> None:
    w = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    once = body(
        [node("MatMul", "state w", "next"), node("Constant", "", "still", value_int=1)],
        {"i": INT, "going": BOOL, "state": TensorProto.FLOAT}, ["going", "next"], w=w,
    )  # fmt: skip
    graph = model([node("Loop", "trips _ x", "y", body=once)], trips=9)
    folded = fold(graph, "test").model.graph
    assert [each.op_type for each in folded.node] == ["MatMul"] * 9 + ["Identity"]
    assert len(folded.initializer) == 1
    assert_same(loaded(graph, tmp_path))


def test_loop_without_iterations_returns_initial_values(tmp_path: Path) -> None:
    once = body(
        [node("Relu", "state", "next")],
        {"i": INT, "going": BOOL, "state": TensorProto.FLOAT}, ["going", "next"],
    )  # fmt: skip
    graph = model([node("Loop", "trips _ x", "s", body=once), node("Neg", "s", "y")], trips=0)
    assert kinds(graph) == {"Neg"}
    assert_same(loaded(graph, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("turned", [0, 1])
def test_unrolls_scan_in_both_directions(tmp_path: Path, backwards: int, turned: int) -> None:
    once = body(
        [node("Add", "state slice", "sum"), node("Relu", "sum", "out")],
        {"state": TensorProto.FLOAT, "slice": TensorProto.FLOAT}, ["sum", "out"],
    )  # fmt: skip
    graph = model(
        [
            node(
                "Scan", "start x", "last outs", body=once, num_scan_inputs=1, scan_input_axes=[1],
                scan_input_directions=[backwards], scan_output_directions=[turned], scan_output_axes=[1],
            ),
            node("Unsqueeze", "last one", "wide"),
            node("Sub", "outs wide", "y"),
        ],
        start=np.zeros(3, np.float32), one=[1],
    )  # fmt: skip
    for value in graph.graph.node[0].attribute[0].g.input:
        value.type.tensor_type.shape.dim.add().dim_value = 3
    assert "Scan" not in kinds(graph)
    assert_same(loaded(graph, tmp_path))


def endless(limit: int) -> onnx.ModelProto:
    once = body(
        [node("Relu", "state", "next")],
        {"i": INT, "going": BOOL, "state": TensorProto.FLOAT}, ["going", "next"],
    )  # fmt: skip
    return model([node("Loop", "trips _ x", "s", body=once), node("Neg", "s", "y")], trips=limit)


def test_refuses_loop_with_too_many_iterations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "UNROLLED", 100)
    with pytest.raises(UsageError, match=r"Loop \(node 's'\) makes more than 10000 nodes when") as caught:
        loaded(endless(2**62), tmp_path)
    assert caught.value.hint
    assert len(fold(endless(100), "test").model.graph.node) == 101
    assert fold(endless(101), "test").problems


def test_refuses_loop_with_computed_trip_count_and_hints_at_cut(tmp_path: Path) -> None:
    once = body(
        [node("Relu", "state", "next")],
        {"i": INT, "going": BOOL, "state": TensorProto.FLOAT}, ["going", "next"],
    )  # fmt: skip
    graph = model(
        [
            node("Neg", "x", "n"),
            node("ReduceMax", "x", "largest", keepdims=0),
            node("Cast", "largest", "count", to=INT),
            node("Loop", "count _ n", "y", name="again", body=once),
        ]
    )
    with pytest.raises(UsageError, match=r"Loop \(node 'again'\) runs as often as the data say") as caught:
        loaded(graph, tmp_path)
    assert str(caught.value.hint).endswith("--outputs n,count")
