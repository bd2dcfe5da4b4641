"""Shapes and values of layers; what numpy makes of them, and onnxruntime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from onnx import TensorProto, helper, numpy_helper

from tests.vta.generated import layer, shapes
from toolchain.errors import UsageError
from toolchain.vta.layers.layer import (
    ConvLayer,
    ConvShape,
    expected,
    pack_activation,
    pack_weight,
    read_shape,
    unpack_activation,
)
from toolchain.vta.layers.region import seeded_inputs, seeded_layer, seeded_region

SHAPE = ConvShape(1, 6, 5, 3, 4, 3, 3, 1, 1, 1, 1)


def test_shape_survives_text() -> None:
    text = "1,56,56,64,128,3,3,1,1,2,2"
    shape = read_shape(text)
    assert (str(shape), shape.oh, shape.ow, shape.taps) == (text, 28, 28, 9)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a shape"),
        ("1,2,3", "is not a shape"),
        ("1,56,56,64,64,3,3,1,1,1,x", "is not a shape"),
        ("1,56,56,64,64,3,3,1,1,1,-1", "is not a shape"),
        ("1,56,56,64,64,3,3,1,1,1,99999999999999999999", "is not a shape"),
        ("2,56,56,64,64,3,3,1,1,1,1", "batch 2"),
        ("1,56,56,0,64,3,3,1,1,1,1", "ic 0"),
        ("1,56,56,64,64,3,3,1,1,0,1", "sh 0"),
        ("1,56,56,64,64,3,3,3,1,1,1", "ph 3"),
        ("1,56,56,64,64,1,1,1,0,1,1", "ph 1"),
        ("1,99,99,1,1,40,40,16,1,1,1", "ph 16"),
        ("1,2,2,64,64,7,7,1,1,1,1", "the kernel is larger"),
    ],
)
def test_refuses_invalid_shapes(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as refused:
        read_shape(text)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"weight": np.zeros((4, 3, 3, 1), np.int8)}, "weight is"),
        ({"bias": np.zeros(3, np.int32)}, "bias is"),
        ({"weight": np.zeros((4, 3, 3, 3))}, "weight is of float64"),
        ({"bias": np.zeros(4, np.int64)}, "bias is of int64"),
        ({"right": np.array([0, 1, 1, 1])}, "right shifts from 0"),
        ({"right": np.array([16, 1, 1, 1])}, "right shifts from 1 to 16"),
        ({"left": np.array([0, 7, 0, 0])}, "left shifts from 0 to 7; 1 to 7"),
        ({"left": np.array([22, 22, 22, 22])}, "left shifts from 22 to 22; 16 to 21"),
        ({"low": -128}, "clips to -128"),
        ({"high": 0}, "clips to -127 and 0"),
    ],
)
def test_refuses_values_out_of_range(change: dict[str, object], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        replace(layer(SHAPE), **change)


@settings(max_examples=25, deadline=None)
@given(shape=shapes(9))
def test_layer_matches_onnxruntime(shape: ConvShape) -> None:
    drawn = layer(shape, 3, residual=True)
    small = replace(drawn, bias=np.clip(drawn.bias, -(2**20), 2**20), left=np.minimum(drawn.left, 6))
    _, inputs = seeded_region(small, 5)
    result = _by_onnxruntime(small, inputs["source"], inputs["residual"])
    assert np.array_equal(result, expected(small, inputs["source"], inputs["residual"]))


def test_sums_wrap_like_int32() -> None:
    wide = ConvLayer(
        ConvShape(1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        np.array([[[[127]]]], np.int8),
        np.array([2**31 - 1], np.int32),
        np.array([15]),
    )
    assert expected(wide, np.full((1, 1, 1), 127, np.int8)) == -127


def test_seeded_layers_use_all_eight_bits() -> None:
    for residual in (False, True):
        region, inputs = seeded_region(
            seeded_layer(ConvShape(1, 14, 14, 256, 64, 3, 3, 1, 1, 1, 1), 0, residual), 0
        )
        result = expected(region.layers[0].layer, inputs["source"], inputs.get("residual"))
        assert 20 < result.astype(float).std() < 90
        assert (np.abs(result) == 127).mean() < 0.4
    assert seeded_inputs(region, 1)["source"].shape == (256, 14, 14)


@given(shape=shapes(5))
def test_packing_pads_with_zeros(shape: ConvShape) -> None:
    value = np.arange(shape.ic * shape.h * shape.w).astype(np.int8).reshape(shape.ic, shape.h, shape.w)
    packed = pack_activation(value, 16)
    assert packed.shape == (-(-shape.ic // 16), shape.h, shape.w, 16)
    assert np.array_equal(unpack_activation(packed, shape.ic), value)
    assert not unpack_activation(packed, packed.shape[0] * 16)[shape.ic :].any()


def test_weight_tiles_are_contiguous() -> None:
    weight = np.arange(64 * 32 * 9).reshape(64, 32, 3, 3)
    tiles = pack_weight(weight, 16, 2, 1)
    assert tiles.shape == (2, 2, 2, 1, 3, 3, 16, 16)
    assert tiles[1, 0, 1, 0, 2, 0, 5, 7] == weight[32 + 16 + 5, 7, 2, 0]
    assert tiles[0, 1, 0, 0, 1, 2, 5, 7] == weight[5, 16 + 7, 1, 2]


def _by_onnxruntime(conv: ConvLayer, source: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Run the graph that stands for such a layer: integers, and floats that hold them exactly."""
    shape = conv.shape
    across = (1, -1, 1, 1)
    assert conv.left is not None
    held = {
        "weight": conv.weight,
        "bias": conv.bias.reshape(across),
        "left": (1 << conv.left).astype(np.int32).reshape(across),
        "step": np.ldexp(1.0, -conv.right).reshape(across),
        "low": np.float64(conv.low),
        "high": np.float64(conv.high),
    }
    nodes = [
        helper.make_node(
            "ConvInteger",
            ["x", "weight"],
            ["a"],
            pads=[shape.ph, shape.pw] * 2,
            strides=[shape.sh, shape.sw],
        ),
        helper.make_node("Cast", ["r"], ["wide"], to=TensorProto.INT32),
        helper.make_node("Mul", ["wide", "left"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Add", ["c", "bias"], ["d"]),
        helper.make_node("Cast", ["d"], ["e"], to=TensorProto.DOUBLE),
        helper.make_node("Mul", ["e", "step"], ["f"]),
        helper.make_node("Floor", ["f"], ["g"]),
        helper.make_node("Clip", ["g", "low", "high"], ["h"]),
        helper.make_node("Cast", ["h"], ["y"], to=TensorProto.INT8),
    ]
    graph = helper.make_graph(
        nodes,
        "layer",
        [
            helper.make_tensor_value_info("x", TensorProto.INT8, [1, *source.shape]),
            helper.make_tensor_value_info("r", TensorProto.INT8, [1, *residual.shape]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [1, *residual.shape])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    result: np.ndarray = session.run(None, {"x": source[None], "r": residual[None]})[0][0]
    return result
