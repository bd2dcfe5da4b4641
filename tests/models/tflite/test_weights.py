"""Operators with weights beside TensorFlow Lite's reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.tflite.judge import compare, computed, drawn, reference
from tests.models.tflite.writer import Writer
from toolchain.models.tflite.convert import read_tflite

pytestmark = pytest.mark.slow

FORMS = ("float32", "int8", "int8 by channel", "uint8")
WINDOW = {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}


def _weighted(
    name: str,
    form: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    y: tuple[int, ...],
    table: str,
    options: dict[str, Any],
    *,
    axis: int = 0,
    biased: bool = True,
    before: tuple[np.ndarray, ...] = (),
) -> Writer:
    """Return a network of one operator with random weights, `w` in the file's order, and scales that fit."""
    generator, writer = np.random.default_rng(len(form)), Writer()
    dtype, channels, depth = form.split()[0], w[axis], int(np.prod(w)) // w[axis]
    places = [writer.constant(array) for array in before]
    if dtype == "float32":
        writer.inputs.append(writer.add(x))
        weights = writer.constant(generator.standard_normal(w).astype("float32"))
        bias = writer.constant(generator.standard_normal(channels).astype("float32"))
        result = writer.add(y)
    else:
        shift = 128 if dtype == "uint8" else 0
        writer.inputs.append(writer.add(x, dtype, scale=0.03, zero=7 + shift))
        integers = generator.integers(-127, 128, w) + shift
        scale: Any = 0.02
        if "by channel" in form:
            scale = generator.uniform(0.01, 0.03, channels).astype("float32")
        zero = 11 + shift if dtype == "uint8" else 0
        weights = writer.constant(integers.astype(dtype), scale=scale, zero=zero, axis=axis)
        steps = generator.integers(-2000, 2000, channels).astype("int32")
        bias = writer.constant(steps, scale=np.float32(0.03) * np.asarray(scale, "float32"))
        result = writer.add(y, dtype, scale=float(0.05 * np.sqrt(depth)), zero=-9 + shift)
    given = [weights, writer.inputs[0]] if before else [writer.inputs[0], weights]
    writer.call(name, [*places, *given, *([bias] if biased else [])], [result], table, **options)
    writer.outputs.append(result)
    return writer


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fused", [0, 1, 3])
@pytest.mark.parametrize(("stride", "padding", "extents"), [(1, 0, (9, 8)), (2, 0, (5, 4)), (2, 1, (4, 3))])
def test_a_convolution(form: str, fused: int, stride: int, padding: int, extents: tuple[int, int]) -> None:
    options = {"Padding": padding, "StrideW": stride, "StrideH": stride, "FusedActivationFunction": fused}
    options |= {"DilationWFactor": 1, "DilationHFactor": 1}
    x, w, y = (1, 9, 8, 6), (5, 3, 3, 6), (1, *extents, 5)
    if padding:
        y = (1, 4, 3, 5)
    compare(_weighted("CONV_2D", form, x, w, y, "Conv2DOptions", options), equal=0.9)


@given(
    st.sampled_from(FORMS),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_any_depthwise_convolution(
    form: str, size: tuple[int, int], window: tuple[int, int], stride: int, dilation: int, multiplier: int
) -> None:
    if stride > 1 and dilation > 1:
        stride = 1
    options = {"Padding": 0, "StrideW": stride, "StrideH": stride, "DepthMultiplier": multiplier}
    options |= {"DilationWFactor": dilation, "DilationHFactor": dilation}
    made = 3 * multiplier
    y = (1, *(-(-extent // stride) for extent in size), made)
    writer = _weighted(
        "DEPTHWISE_CONV_2D",
        form,
        (1, *size, 3),
        (1, *window, made),
        y,
        "DepthwiseConv2DOptions",
        options,
        axis=3,
    )
    compare(writer)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("padding", "stride", "extents"), [(0, 2, (8, 10)), (1, 2, (9, 11)), (1, 1, (6, 7))])
def test_a_transposed_convolution(form: str, padding: int, stride: int, extents: tuple[int, int]) -> None:
    y = (1, *extents, 5)
    writer = _weighted(
        "TRANSPOSE_CONV",
        form,
        (1, 4, 5, 6),
        (5, 3, 3, 6),
        y,
        "TransposeConvOptions",
        {"Padding": padding, "StrideW": stride, "StrideH": stride},
        biased=False,
        before=(np.array(y, "int32"),),
    )
    compare(writer)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("x", "y", "keeps"),
    [((3, 24), (3, 10), False), ((1, 2, 3, 24), (6, 10), False), ((2, 3, 24), (2, 3, 10), True)],
)
@pytest.mark.parametrize("biased", [True, False])
def test_a_dense_layer(form: str, x: Any, y: Any, keeps: bool, biased: bool) -> None:
    options = {"KeepNumDims": keeps, "FusedActivationFunction": 1}
    compare(
        _weighted("FULLY_CONNECTED", form, x, (10, 24), y, "FullyConnectedOptions", options, biased=biased),
        equal=0.9,
    )


@pytest.mark.parametrize("form", ["float32", "int8"])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_a_product_of_batches(form: str, left: bool, right: bool, constant: bool) -> None:
    writer = Writer()
    rule = {} if form == "float32" else {"scale": 0.02, "zero": 3}
    writer.inputs = [writer.add((2, 5, 4) if left else (2, 4, 5), form, **rule)]
    shape = (2, 6, 5) if right else (2, 5, 6)
    if constant:
        other = writer.constant(drawn(shape, form, 5), **rule)
    else:
        other = writer.add(shape, form, **rule)
        writer.inputs.append(other)
    writer.outputs = [writer.add((2, 4, 6), form, **(rule | {"scale": 0.1} if rule else {}))]
    options = {"AdjX": left, "AdjY": right}
    writer.call("BATCH_MATMUL", [writer.inputs[0], other], writer.outputs, "BatchMatMulOptions", **options)
    compare(writer)


def test_weights_in_float16_are_numbers_of_float32() -> None:
    writer = Writer()
    writer.inputs = [writer.add((2, 8))]
    half = writer.constant(drawn((5, 8), "float16", 1))
    whole, result = writer.add((5, 8)), writer.add((2, 5))
    writer.call("DEQUANTIZE", [half], [whole])
    writer.call("FULLY_CONNECTED", [writer.inputs[0], whole, -1], [result], "FullyConnectedOptions")
    writer.outputs = [result]
    compare(writer)


@pytest.mark.parametrize("scale", [0.01, [0.01, 0.02, 0.03, 0.01, 0.02]])
def test_integer_weights_between_floats_are_the_numbers_that_they_mean(scale: Any) -> None:
    """TensorFlow Lite rounds the activations of such a layer to integers, too; this reader does not."""
    writer = Writer()
    writer.inputs = [writer.add((2, 8))]
    weights = writer.constant(drawn((5, 8), "int8", 1).clip(-127, 127), scale=scale)
    writer.outputs = [writer.add((2, 5))]
    writer.call("FULLY_CONNECTED", [writer.inputs[0], weights, -1], writer.outputs, "FullyConnectedOptions")
    data, inputs = writer.finish(), [drawn((2, 8), "float32", 3)]
    ours, theirs = computed(data, inputs)[0], reference(data, inputs)[0]
    real = inputs[0] @ (writer.tensors[weights].data * np.reshape(scale, (-1, 1))).T
    np.testing.assert_allclose(ours, real, 1e-5, 1e-5)
    assert np.abs(theirs - real).max() < 0.1


@pytest.mark.parametrize("form", ["float32", "int8"])
def test_zeros_around_a_convolution_become_its_padding(form: str) -> None:
    options = {"Padding": 1, "StrideW": 2, "StrideH": 2, "DilationWFactor": 1, "DilationHFactor": 1}
    writer = _weighted("CONV_2D", form, (1, 9, 10, 4), (5, 3, 3, 4), (1, 4, 4, 5), "Conv2DOptions", options)
    (padded,), whole = writer.inputs, writer.tensors[writer.inputs[0]]
    x = writer.add((1, 8, 8, 4), form, scale=whole.scale, zero=whole.zero)
    pads = writer.constant(np.array([[0, 0], [0, 1], [1, 1], [0, 0]], "int32"))
    writer.call("PAD", [x, pads], [padded], "PadOptions")
    writer.calls.reverse()
    writer.inputs = [x]
    assert "Pad" not in [node.op_type for node in read_tflite(writer.finish(), "x").graph.node]
    compare(writer, equal=0.9)


def test_a_quantised_number_around() -> None:
    writer, rule = Writer(), {"scale": 0.02, "zero": 5}
    writer.inputs = [writer.add((1, 4, 4, 3), "int8", **rule)]
    pads = writer.constant(np.array([[0, 0], [1, 2], [0, 1], [0, 3]], "int32"))
    around = writer.constant(np.array([-77], "int8"), **rule)
    writer.outputs = [writer.add((1, 7, 5, 6), "int8", **rule)]
    writer.call("PADV2", [writer.inputs[0], pads, around], writer.outputs)
    compare(writer, steps=0)


def test_weights_of_an_unrolled_loop_are_stored_once() -> None:
    """Each step of such a loop reads the same matrix: copies would be many times the file."""
    writer = Writer()
    last = writer.add((2, 4))
    writer.inputs = [last]
    matrix = writer.constant(drawn((4, 4), "float32", 1))
    for _ in range(3):
        result = writer.add((2, 4))
        writer.call("FULLY_CONNECTED", [last, matrix, -1], [result], "FullyConnectedOptions")
        last = result
    writer.outputs = [last]
    assert len(read_tflite(writer.finish(), "x").graph.initializer) == 1
    compare(writer)


def test_integers_that_two_operators_share() -> None:
    """onnxruntime refuses constant integers with two readers: "attempt to replace the existing tensor"."""
    writer = Writer()
    rule = {"scale": 0.02, "zero": 3}
    writer.inputs = [writer.add((1, 4, 4, 3), "int8", **rule)]
    shared = writer.constant(drawn((3,), "int8", 4), scale=0.01)
    first, second = (writer.add((1, 4, 4, 3), "int8", scale=0.04) for _ in range(2))
    writer.call("ADD", [writer.inputs[0], shared], [first], "AddOptions")
    writer.call("ADD", [first, shared], [second], "AddOptions")
    writer.outputs = [second]
    compare(writer)


def test_a_chain_of_convolutions_stays_channels_first() -> None:
    """Transposes appear where the network begins and ends, and nowhere between."""
    writer = Writer()
    last = writer.add((1, 8, 8, 4))
    writer.inputs = [last]
    for _ in range(3):
        weights, bias = (
            writer.constant(drawn(shape, "float32", 2, -0.1, 0.1)) for shape in [(4, 3, 3, 4), (4,)]
        )
        made, result = writer.add((1, 8, 8, 4)), writer.add((1, 8, 8, 4))
        writer.call("CONV_2D", [last, weights, bias], [made], "Conv2DOptions", **WINDOW)
        writer.call("ADD", [last, made], [result], "AddOptions")
        last = result
    writer.outputs = [last]
    kinds = [node.op_type for node in read_tflite(writer.finish(), "x").graph.node]
    assert kinds.count("Transpose") == 2 and kinds.count("Conv") == 3
    compare(writer)
