"""Types of a node's outputs: onnx's word, onnxruntime's where onnx has none."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper
from onnx.shape_inference import InferenceError

from tests.models.graphs import graph_of
from toolchain.models.folding.constants import Constant, static_shape
from toolchain.models.folding.evaluate import NodeEvaluator
from toolchain.models.folding.walk import Inference

FLOAT = TensorProto.FLOAT


def inference(opset: int = 17, **others: int) -> Inference:
    model = graph_of([], [], [], {}, opset)
    model.opset_import.extend(
        helper.make_opsetid(name.replace("_", "."), each) for name, each in others.items()
    )
    return Inference(model, NodeEvaluator(model))


def floats(*shape: int | str | None) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(FLOAT, shape)


def shapes(found: dict[str, onnx.TypeProto]) -> dict[str, tuple[int, ...] | None]:
    return {name: static_shape(each) for name, each in found.items()}


def test_infers_shape_from_known_value() -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    target = Constant(np.array([3, -1]))
    types = {"x": floats(2, 6), "shape": target.type}
    assert shapes(inference().outputs(node, types, {"shape": target})) == {"y": (3, 4)}
    assert shapes(inference().outputs(node, types, {})) == {"y": None}


def test_infers_nothing_from_untyped_input() -> None:
    node = helper.make_node("Add", ["x", "unknown"], ["y"])
    assert inference().outputs(node, {"x": floats(2)}, {}) == {}


def test_omitted_input_needs_no_type() -> None:
    node = helper.make_node("Clip", ["x", "", "most"], ["y"])
    assert shapes(inference().outputs(node, {"x": floats(2, 3), "most": floats()}, {})) == {"y": (2, 3)}


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_both_names_of_the_standard_domain(domain: str) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], domain=domain)
    assert shapes(inference().outputs(node, {"x": floats(2)}, {})) == {"y": (2,)}


def test_the_operator_set_says_what_an_operator_means() -> None:
    """Before set 13 the axes of Squeeze were no input; Gelu is of set 20."""
    node = helper.make_node("Squeeze", ["x", "axes"], ["y"])
    axes = Constant(np.array([0]))
    types = {"x": floats(1, 1, 3), "axes": axes.type}
    assert shapes(inference(13).outputs(node, types, {"axes": axes})) == {"y": (1, 3)}
    gelu = helper.make_node("Gelu", ["x"], ["y"])
    assert shapes(inference(20).outputs(gelu, {"x": floats(2)}, {})) == {"y": (2,)}


def test_onnxruntimes_own_operators_have_its_types() -> None:
    node = helper.make_node("FusedMatMul", ["a", "b"], ["y"], domain="com.microsoft", transB=1)
    found = inference(com_microsoft=1).outputs(node, {"a": floats(2, 3), "b": floats(5, 3)}, {})
    assert shapes(found) == {"y": (2, 5)}
    assert found["y"].tensor_type.elem_type == FLOAT
    open_one = inference(com_microsoft=1).outputs(node, {"a": floats("n", 3), "b": floats(5, 3)}, {})
    assert static_shape(open_one.get("y")) is None


def test_infers_nothing_for_unknown_domain() -> None:
    node = helper.make_node("Strange", ["x"], ["y"], domain="my.own")
    assert inference(my_own=1).outputs(node, {"x": floats(2)}, {}) == {}


def test_refuses_inputs_that_do_not_fit() -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    with pytest.raises(InferenceError):
        inference().outputs(node, {"a": floats(2, 3), "b": floats(4, 5)}, {})


@pytest.mark.parametrize("opset", [12, 13, 15])
@pytest.mark.parametrize("operator", ["GreaterOrEqual", "LessOrEqual"])
def test_infers_comparison_from_its_definition(operator: str, opset: int) -> None:
    node = helper.make_node(operator, ["a", "b"], ["y"])
    found = inference(opset).outputs(node, {"a": floats(2, 1), "b": floats(3)}, {})
    assert shapes(found) == {"y": (2, 3)}
    assert found["y"].tensor_type.elem_type == TensorProto.BOOL


@pytest.mark.parametrize("opset", [7, 9, 13, 18, 26])
def test_each_operator_without_types_of_its_own_has_those_of_its_definition(opset: int) -> None:
    nodes = {
        "MeanVarianceNormalization": helper.make_node("MeanVarianceNormalization", ["x"], ["y"], axes=[0, 2]),
        "GroupNormalization": helper.make_node("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=2),
    }
    left = {
        schema.name
        for schema in (schema_of(each.name, opset) for each in defs.get_all_schemas())
        if schema is not None and not schema.deprecated and not schema.has_type_and_shape_inference_function
    } - {"GreaterOrEqual", "LessOrEqual", "Compress"}
    assert left <= nodes.keys()
    for name in left:
        types = {"x": floats(2, 4, 8), "s": floats(4)}
        assert shapes(inference(opset).outputs(nodes[name], types, {})) == {"y": (2, 4, 8)}


def schema_of(name: str, opset: int) -> defs.OpSchema | None:
    """Return an operator of the standard as a set has it; None if it does not."""
    try:
        return defs.get_schema(name, opset, "")
    except defs.SchemaError:
        return None
