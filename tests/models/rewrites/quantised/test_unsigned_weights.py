"""Weights of integer operators become unsigned where activations are, and mean what they meant."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.rewrites.quantised.values import with_unsigned_weights


def product(activations: int, zeros: list[str]) -> onnx.ModelProto:
    """Return a MatMulInteger whose weights and zero points are constants."""
    stored = {
        "w": np.array([[-128, 127], [3, -4]], np.int8),
        "az": np.array(5, np.uint8 if activations == TensorProto.UINT8 else np.int8),
        "wz": np.array([7, -7], np.int8),
    }
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "w", *zeros], ["y"])],
        "product",
        [helper.make_tensor_value_info("a", activations, [3, 2])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [3, 2])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("zeros", [[], ["az"], ["az", "wz"], ["", "wz"]])
def test_weights_are_128_higher_and_so_are_their_zero_points(zeros: list[str]) -> None:
    changed = with_unsigned_weights(product(TensorProto.UINT8, zeros))
    stored = {each.name: numpy_helper.to_array(each) for each in changed.graph.initializer}
    _, weight, _, zero = changed.graph.node[0].input
    assert stored[weight].dtype == stored[zero].dtype == np.uint8
    np.testing.assert_array_equal(stored[weight], [[0, 255], [131, 124]])
    np.testing.assert_array_equal(stored[zero], [135, 121] if "wz" in zeros else 128)


@pytest.mark.parametrize("zeros", [[], ["az", "wz"]])
def test_weights_of_int8_activations_stay(zeros: list[str]) -> None:
    model = product(TensorProto.INT8, zeros)
    assert with_unsigned_weights(model) == model


@pytest.mark.parametrize("zeros", [[], ["", "wz"], ["az", "wz"]])
def test_the_products_stay(zeros: list[str]) -> None:
    model = product(TensorProto.UINT8, zeros)
    given = {"a": np.array([[0, 255], [17, 4], [128, 1]], np.uint8)}
    before, after = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, given)[0]
        for each in (model, with_unsigned_weights(model))
    )
    np.testing.assert_array_equal(before, after)
