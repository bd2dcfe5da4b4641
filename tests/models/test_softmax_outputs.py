"""Which outputs are probabilities: those whose last dimension sums to one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.original import outputs_of
from toolchain.models.output_kinds import softmax_outputs


def network(
    shape: tuple[int, ...],
    target: tuple[int, ...],
    opset: int,
    *,
    operator: str = "Softmax",
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a Softmax whose result is reshaped to `target`."""
    nodes = [
        helper.make_node(operator, ["x"], ["p"], **attributes),
        helper.make_node("Reshape", ["p", "shape"], ["q"]),
        helper.make_node("Identity", ["q"], ["y"]),
    ]
    model = graph_of(
        nodes, [tensor_info("x", shape)], [tensor_info("y", target)], {"shape": np.array(target)}, opset
    )
    model.graph.value_info.append(tensor_info("p", shape))
    return model


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], int, int | None]:
    """Draw a shape, one of as many elements, an operator set and an axis."""
    extents = draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4))
    other = draw(st.permutations(extents))
    cut = draw(st.integers(0, len(other)))
    target = [int(np.prod(other[:cut])), int(np.prod(other[cut:]))] if draw(st.booleans()) else other
    axis = draw(st.none() | st.integers(-len(extents), len(extents) - 1))
    return tuple(extents), tuple(target), draw(st.sampled_from([11, 13, 17])), axis


@pytest.mark.slow
@settings(max_examples=60)
@given(cases())
def test_reported_probabilities_sum_to_one(
    case: tuple[tuple[int, ...], tuple[int, ...], int, int | None],
) -> None:
    shape, target, opset, axis = case
    if opset < 13 and axis is None and len(shape) == 1:
        axis = 0  # 1, what is meant without, is no axis of it
    model = network(shape, target, opset, **({} if axis is None else {"axis": axis}))
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    (y,) = outputs_of(model, {"x": x})
    sums = y.sum(axis=-1)
    if softmax_outputs(model):
        np.testing.assert_allclose(sums, 1, rtol=1e-5)
    elif target == shape and target[-1] > 1:
        assert not np.allclose(sums, 1, rtol=1e-3), "one was missed"


@pytest.mark.parametrize("opset", [11, 13])
def test_finds_classifier_output(opset: int) -> None:
    axis = 1 if opset < 13 else -1
    assert softmax_outputs(network((2, 5), (2, 5), opset, axis=axis)) == {"y"}
    assert softmax_outputs(network((2, 5), (2, 5), opset)) == {"y"}, "the last axis is meant without"
    assert softmax_outputs(network((2, 5, 1, 1), (2, 5), opset, axis=1)) == {"y"}


def test_ignores_logarithms_and_derived_outputs() -> None:
    assert softmax_outputs(network((2, 5), (2, 5), 17, operator="LogSoftmax")) == frozenset()
    model = network((2, 5), (2, 5), 17)
    model.graph.node[2].op_type = "Neg"
    assert softmax_outputs(model) == frozenset()


def test_an_open_number_of_classes_is_not_guessed() -> None:
    model = network((2, 5), (2, 5), 17)
    model.graph.value_info[0].CopyFrom(tensor_info("p", (2, "classes")))
    assert softmax_outputs(model) == frozenset()


def test_ignores_output_that_is_an_input() -> None:
    model = graph_of([helper.make_node("Identity", ["x"], ["y"])], [tensor_info("x", (2,))], [], {})
    model.graph.output.extend([tensor_info("y", (2,)), tensor_info("x", (2,))])
    assert softmax_outputs(model) == frozenset()
