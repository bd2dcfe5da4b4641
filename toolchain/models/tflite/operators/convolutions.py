"""Convolutions; their weights are constants, with one scale or one for each output channel."""

from __future__ import annotations

from toolchain.models.tflite.call import VALID, OperatorCall, Rule, window_padding
from toolchain.models.tflite.network import ChannelOrder
from toolchain.quantities import counted


def convolution(call: OperatorCall) -> None:
    """Translate CONV_2D; weights are [output, height, width, input / groups]."""
    channels, weights = call.input(0).shape[3], call.input(1)
    if channels % weights.shape[3]:
        raise ValueError(f"{counted(channels, 'channel')} in groups of {weights.shape[3]}")
    _windowed(call, (0, 3, 1, 2), channels // weights.shape[3])


def depthwise(call: OperatorCall) -> None:
    """Translate DEPTHWISE_CONV_2D; weights are [1, height, width, channels * multiplier]."""
    channels, results = call.input(0).shape[3], call.input(1).shape[3]
    if results % channels:
        raise ValueError(f"{counted(results, 'channel')} of {channels}")
    _windowed(call, (3, 0, 1, 2), channels)


def _windowed(call: OperatorCall, order: tuple[int, ...], groups: int) -> None:
    x, weights, bias = call.input(0), call.input(1), call.optional(2)
    strides = [call.option("stride_h", 1), call.option("stride_w", 1)]
    dilations = [call.option("dilation_h_factor", 1), call.option("dilation_w_factor", 1)]
    pads = [
        window_padding(call.option("padding", 0), size, window, stride, dilation)
        for size, window, stride, dilation in zip(
            x.shape[1:3], weights.shape[1:3], strides, dilations, strict=True
        )
    ]
    graph = call.graph
    if (
        call.option("padding", 0) == VALID and x.index in graph.zero_padded
    ):  # PAD, then VALID: one convolution
        x, pads = graph.zero_padded[x.index]
    inputs = [graph.real(x.index, ChannelOrder.FIRST), graph.weights(weights.index, order)]
    if bias is not None:
        inputs.append(graph.bias(bias.index, x, weights))
    result = graph.emit(
        "Conv",
        inputs,
        call.output.name,
        kernel_shape=weights.shape[1:3],
        strides=strides,
        dilations=dilations,
        pads=[before for before, _ in pads] + [behind for _, behind in pads],
        group=groups,
    )
    graph.result(call.output.index, result, ChannelOrder.FIRST, call.bounds())


def transposed(call: OperatorCall) -> None:
    """Translate TRANSPOSE_CONV; weights are [output, height, width, input], the first input is a shape."""
    weights, x, bias = call.input(1), call.input(2), call.optional(3)
    shape = call.numbers(0, "the shape of its output")
    if shape != list(call.output.shape):
        raise ValueError(f"shape {shape} where {list(call.output.shape)} is declared")
    strides = [call.option("stride_h", 1), call.option("stride_w", 1)]
    ends, more = [], []
    for size, output, window, stride in zip(
        x.shape[1:3], shape[1:3], weights.shape[1:3], strides, strict=True
    ):
        missing = output - ((size - 1) * stride + window)
        before = 0 if call.option("padding", 0) == VALID else max(-missing, 0) // 2
        ends.append((before, max(-missing, 0) - before))
        more.append(max(missing, 0))
    graph = call.graph
    inputs = [graph.real(x.index, ChannelOrder.FIRST), graph.weights(weights.index, (3, 0, 1, 2))]
    if bias is not None:
        inputs.append(graph.bias(bias.index, x, weights))
    made_name = graph.emit(
        "ConvTranspose",
        inputs,
        call.output.name,
        kernel_shape=weights.shape[1:3],
        strides=strides,
        pads=[before for before, _ in ends] + [behind for _, behind in ends],
        output_padding=more,
    )
    graph.result(call.output.index, made_name, ChannelOrder.FIRST, call.bounds())


RULES: dict[str, Rule] = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": depthwise,
    "TRANSPOSE_CONV": transposed,
}
