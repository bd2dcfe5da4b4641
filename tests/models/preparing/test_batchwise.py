"""Recurrent nodes with the batch first compute what they did, written with the steps first."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.original import outputs_of
from toolchain.models.onnx_graph import all_nodes
from toolchain.models.preparing.modernise import steps_first

BATCH, STEPS, SIZE, UNITS = 2, 3, 4, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def network(
    cell: str, layout: int, outputs: tuple[int, ...], *, both: bool = False, states: bool = False
) -> onnx.ModelProto:
    """Return one node of a layout with those of its outputs Y, Y_h, Y_c that are asked for."""
    directions = 2 if both else 1
    random = np.random.default_rng(1)
    weights = {
        name: random.normal(size=(directions, GATES[cell] * UNITS, last)).astype(np.float32) / 2
        for name, last in (("w", SIZE), ("r", UNITS))
    }
    state = (directions, BATCH, UNITS)
    shapes = {"x": (STEPS, BATCH, SIZE)} | ({"h": state} if states else {})
    if cell == "LSTM" and states:
        shapes["c"] = state
    results = {0: (STEPS, directions, BATCH, UNITS), 1: state, 2: state}
    if layout:
        shapes = {name: (shape[1], shape[0], shape[2]) for name, shape in shapes.items()}
        results = {0: (BATCH, STEPS, directions, UNITS), 1: (BATCH, directions, UNITS)}
        results[2] = results[1]
    names = ["x", "w", "r", "", "", *(name for name in "hc" if name in shapes)]
    made = [f"y{place}" if place in outputs else "" for place in range(max(outputs) + 1)]
    attributes = {"hidden_size": UNITS, "direction": "bidirectional" if both else "forward"}
    node = helper.make_node(cell, names, made, "cell", layout=layout, **attributes)
    return graph_of(
        [node],
        [tensor_info(name, shape) for name, shape in shapes.items()],
        [tensor_info(f"y{place}", results[place]) for place in outputs],
        weights,
    )


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data(), cell=st.sampled_from(list(GATES)), both=st.booleans(), states=st.booleans())
def test_the_numbers_are_those_of_the_other_layout(
    data: st.DataObject, cell: str, both: bool, states: bool
) -> None:
    """onnxruntime has no layout 1: it computes layout 0, and numpy swaps the axes."""
    last = 3 if cell == "LSTM" else 2
    asked = data.draw(st.sets(st.integers(0, last - 1), min_size=1), label="outputs")
    outputs = tuple(sorted(asked))
    model = network(cell, 1, outputs, both=both, states=states)
    steps_first(model)
    onnx.checker.check_model(model, full_check=True)
    plain = network(cell, 0, outputs, both=both, states=states)
    random = np.random.default_rng(2)
    inputs = {
        value.name: random.normal(size=[d.dim_value for d in value.type.tensor_type.shape.dim]).astype("f4")
        for value in model.graph.input
    }
    expected = outputs_of(plain, {name: array.swapaxes(0, 1) for name, array in inputs.items()})
    for place, ours, theirs in zip(outputs, outputs_of(model, inputs), expected, strict=True):
        turned = theirs.swapaxes(0, 1) if place else theirs.transpose(2, 0, 1, 3)
        np.testing.assert_allclose(ours, turned, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("taken", ["x_steps_first", "y0_steps_first"])
def test_new_names_are_unused(taken: str) -> None:
    model = network("GRU", 1, (0,))
    model.graph.node.append(helper.make_node("Neg", ["x"], [taken]))
    model.graph.output.append(tensor_info(taken, (BATCH, STEPS, SIZE)))
    steps_first(model)
    onnx.checker.check_model(model, full_check=True)
    made = [name for node in model.graph.node for name in node.output]
    assert len(set(made)) == len(made)


def test_a_node_inside_a_branch_is_rewritten_too() -> None:
    inner = network("RNN", 1, (0,)).graph
    branch = helper.make_graph(list(inner.node), "branch", [], list(inner.output), list(inner.initializer))
    node = helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)
    model = graph_of(
        [node],
        [tensor_info("flag", (), TensorProto.BOOL), tensor_info("x", (BATCH, STEPS, SIZE))],
        [tensor_info("y", tuple("NSDU"))],
        {},
    )
    steps_first(model)
    onnx.checker.check_model(model)
    kinds = [node.op_type for node in all_nodes(model.graph)]
    assert kinds == ["If", *["Transpose", "RNN", "Transpose"] * 2]
    x = np.ones((BATCH, STEPS, SIZE), np.float32)
    (found,) = outputs_of(model, {"flag": np.array(True), "x": x})
    assert found.shape == (BATCH, STEPS, 1, UNITS)


def test_nothing_else_is_touched() -> None:
    model = network("LSTM", 0, (0, 1, 2), states=True)
    model.graph.node.append(helper.make_node("Mine", ["x"], ["z"], domain="my.own", layout=1))
    before = model.SerializeToString(deterministic=True)
    steps_first(model)
    assert model.SerializeToString(deterministic=True) == before
