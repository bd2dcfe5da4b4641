"""Files in float16 computed in float32: inputs and outputs keep their type, the numbers are nearer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.original import outputs_of
from toolchain.models.importing.importer import as_float32, holds_float16

HALF, FULL = TensorProto.FLOAT16, TensorProto.FLOAT


def dense(weight: str = "w", inner: str = "h") -> onnx.ModelProto:
    """Return `relu(x @ w) + constant`, all of float16, with a weight and an inner tensor of these names."""
    tensor = numpy_helper.from_array(np.array([0.25, -0.5], np.float16), "c")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=tensor),
        helper.make_node("MatMul", ["x", weight], ["m"]),
        helper.make_node("Relu", ["m"], [inner]),
        helper.make_node("Add", [inner, "c"], ["y"]),
    ]
    weights = {weight: np.random.default_rng(0).normal(size=(64, 2)).astype(np.float16)}
    model = graph_of(nodes, [tensor_info("x", (3, 64), HALF)], [tensor_info("y", (3, 2), HALF)], weights)
    model.graph.value_info.append(tensor_info("m", (3, 2), HALF))
    return model


def test_the_types_of_inputs_and_outputs_stay_and_sums_are_exact() -> None:
    model = dense()
    full = as_float32(model)
    onnx.checker.check_model(full, full_check=True)
    kinds = [value.type.tensor_type.elem_type for value in (*full.graph.input, *full.graph.output)]
    assert kinds == [HALF, HALF] and not full.graph.value_info
    assert [tensor.data_type for tensor in full.graph.initializer] == [FULL]
    x = np.random.default_rng(1).normal(size=(3, 64)).astype(np.float16)
    weight = numpy_helper.to_array(model.graph.initializer[0]).astype(np.float64)
    exact = np.maximum(x.astype(np.float64) @ weight, 0) + np.array([0.25, -0.5])
    (found,) = outputs_of(full, {"x": x})
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, exact.astype(np.float16))


@pytest.mark.parametrize("name", ["x/float32", "y/float32"])
@pytest.mark.parametrize("place", ["weight", "inner"])
def test_new_names_are_unused(name: str, place: str) -> None:
    """As a file has them that was converted from this one's own output."""
    full = as_float32(dense(**{place: name}))
    onnx.checker.check_model(full, full_check=True)
    made = [
        *(out for node in full.graph.node for out in node.output),
        *(t.name for t in full.graph.initializer),
    ]
    assert len(set(made)) == len(made)
    x = np.ones((3, 64), np.float16)
    np.testing.assert_array_equal(outputs_of(full, {"x": x})[0], outputs_of(as_float32(dense()), {"x": x})[0])


def test_node_named_like_its_output_keeps_its_name() -> None:
    """Exporters name a node after its output, and onnxruntime takes each name of a node once."""
    model = dense()
    model.graph.node[-1].name = "y"
    x = np.ones((3, 64), np.float16)
    assert outputs_of(as_float32(model), {"x": x})[0].dtype == np.float16


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("Cast", ["x"], {"to": HALF}),
        ("RandomNormal", [], {"dtype": HALF, "shape": [3]}),
    ],
)
def test_a_code_of_a_type_becomes_that_of_float32(
    operator: str, inputs: list[str], attributes: dict[str, object]
) -> None:
    node = helper.make_node(operator, inputs, ["h"], **attributes)
    back = helper.make_node("Cast", ["h"], ["y"], to=FULL)
    model = graph_of([node, back], [tensor_info("x", (3,))], [tensor_info("y", (3,))], {})
    assert holds_float16(model)
    full = as_float32(model)
    assert not holds_float16(full)
    onnx.checker.check_model(full, full_check=True)


def test_attribute_of_value_10_is_not_taken_for_float16() -> None:
    """10 is also float16's code: an axis or a `to` of another kind is left alone."""
    model = graph_of(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT32)],
        [tensor_info("x", (3,))],
        [tensor_info("y", (3,), TensorProto.INT32)],
        {"number": np.array(HALF)},
    )
    model.graph.node.append(helper.make_node("Mine", ["x"], ["z"], domain="my.own", axis=HALF))
    assert not holds_float16(model) and as_float32(model) is model


def test_bitcast_keeps_float16() -> None:
    model = dense()
    model.graph.node.append(helper.make_node("BitCast", ["m"], ["bits"], to=TensorProto.INT16))
    assert as_float32(model) is model


def test_float16_is_found_inside_a_branch() -> None:
    tensor = numpy_helper.from_array(np.ones(2, np.float16), "c")
    node = helper.make_node("Constant", [], ["c"], value=tensor)
    branch = helper.make_graph([node], "branch", [], [onnx.ValueInfoProto(name="c")])
    model = graph_of(
        [helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)],
        [tensor_info("flag", (), TensorProto.BOOL)],
        [tensor_info("y", None)],
        {},
    )
    assert holds_float16(model)


def test_does_not_change_its_argument() -> None:
    model = dense()
    before = model.SerializeToString(deterministic=True)
    as_float32(model)
    assert model.SerializeToString(deterministic=True) == before
