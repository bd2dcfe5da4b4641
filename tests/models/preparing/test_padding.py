"""`auto_pad` written out gives onnxruntime's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.original import outputs_of
from toolchain.models.onnx_graph import attributes_of
from toolchain.models.preparing.infer_shapes import with_explicit_pads


def windowed(
    operator: str, size: tuple[int, ...], kernel: tuple[int, ...], **attributes: Any
) -> onnx.ModelProto:
    """Return one node over images of a size; a convolution without `kernel_shape`, as some write it."""
    weights = {"w": np.random.default_rng(0).normal(size=(2, 3, *kernel)).astype(np.float32)}
    inputs = ["x", "w"]
    if operator != "Conv":
        weights, inputs, attributes = {}, ["x"], {"kernel_shape": kernel, **attributes}
    node = helper.make_node(operator, inputs, ["y"], "window", **attributes)
    return graph_of(
        [node],
        [tensor_info("x", (1, 3, *size))],
        [tensor_info("y", tuple("NCTHW"[: 2 + len(size)]))],
        weights,
    )


axes = st.integers(1, 3).flatmap(
    lambda rank: st.tuples(
        *[st.lists(st.integers(1, most), min_size=rank, max_size=rank) for most in (9, 5, 3)]
    )
)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    operator=st.sampled_from(["Conv", "MaxPool", "AveragePool", "LpPool"]),
    mode=st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]),
    extents=axes,
)
def test_explicit_pads_give_the_same_numbers(
    operator: str, mode: str, extents: tuple[list[int], ...]
) -> None:
    size, kernel, strides = extents
    if mode == "VALID":  # an image smaller than its kernel leaves nothing
        size = [max(pair) for pair in zip(size, kernel, strict=True)]
    if operator != "Conv":  # onnxruntime takes no strides above the kernel in a pool that pads by itself
        strides = [min(pair) for pair in zip(strides, kernel, strict=True)]
    model = windowed(operator, tuple(size), tuple(kernel), auto_pad=mode, strides=strides)
    explicit = with_explicit_pads(model)
    onnx.checker.check_model(explicit)
    attributes = attributes_of(explicit.graph.node[0])
    assert "auto_pad" not in attributes and len(attributes["pads"]) == 2 * len(size)
    x = np.random.default_rng(1).normal(size=(1, 3, *size)).astype(np.float32)
    # onnxruntime refuses a pool's pads as large as its kernel, which it takes where it makes them itself.
    if operator == "Conv" or all(
        pad < taps for pad, taps in zip(attributes["pads"], 2 * kernel, strict=True)
    ):
        for ours, theirs in zip(outputs_of(explicit, {"x": x}), outputs_of(model, {"x": x}), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("size", "kernel", "stride", "dilation"), [(7, 3, 1, 2), (8, 3, 2, 2), (5, 2, 1, 3)])
def test_same_keeps_the_extent_of_a_dilated_kernel(
    mode: str, size: int, kernel: int, stride: int, dilation: int
) -> None:
    model = windowed("Conv", (size,), (kernel,), auto_pad=mode, strides=[stride], dilations=[dilation])
    x = np.zeros((1, 3, size), np.float32)
    assert outputs_of(with_explicit_pads(model), {"x": x})[0].shape[2] == -(-size // stride)


def test_pads_that_auto_pad_overrules_are_dropped_and_all_else_is_kept() -> None:
    model = windowed(
        "MaxPool", (5, 5), (2, 2), auto_pad="VALID", pads=[1, 1, 1, 1], strides=[2, 2], ceil_mode=0
    )
    found = attributes_of(with_explicit_pads(model).graph.node[0])
    assert found == {"pads": [0] * 4, "strides": [2, 2], "kernel_shape": [2, 2], "ceil_mode": 0}


def test_a_graph_without_is_the_same_object() -> None:
    model = windowed("Conv", (4, 4), (3, 3), auto_pad="NOTSET", pads=[1] * 4)
    assert with_explicit_pads(model) is model


def test_does_not_change_its_argument() -> None:
    model = windowed("Conv", (4, 4), (3, 3), auto_pad="SAME_LOWER")
    before = model.SerializeToString(deterministic=True)
    with_explicit_pads(model)
    assert model.SerializeToString(deterministic=True) == before


def test_an_image_of_unknown_size_keeps_what_it_says() -> None:
    model = windowed("AveragePool", (4, 4), (3, 3), auto_pad="SAME_UPPER")
    value = model.graph.input[0]
    value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, None))
    assert attributes_of(with_explicit_pads(model).graph.node[0])["auto_pad"] == b"SAME_UPPER"
