"""Pools, and whatever else looks at windows without weights."""

from __future__ import annotations

import math
from typing import Any

from onnx import TensorProto

from toolchain.models.tflite.call import OperatorCall, Rule
from toolchain.models.tflite.geometry import window_padding
from toolchain.models.tflite.layout import ChannelOrder
from toolchain.models.tflite.steps import in_steps, mean_of_windows


def _pool(kind: str, **attributes: Any) -> Rule:
    def rule(call: OperatorCall) -> None:
        x, graph = call.input(0), call.graph
        windows = [call.option("filter_height", 0), call.option("filter_width", 0)]
        strides = [call.option("stride_h", 0), call.option("stride_w", 0)]
        pads = [
            window_padding(call.option("padding", 0), size, window, stride)
            for size, window, stride in zip(x.shape[1:3], windows, strides, strict=True)
        ]
        rules = in_steps(x, call.output) if kind == "AveragePool" else None
        whole = rules is not None and rules[0].equals(rules[1])
        given = graph.real(x.index, ChannelOrder.FIRST)
        if whole:
            stored = graph.stored(x.index, ChannelOrder.FIRST)
            given = graph.emit("Cast", [stored], call.output.name, to=TensorProto.FLOAT)
        made = graph.emit(
            kind,
            [given],
            call.output.name,
            kernel_shape=windows,
            strides=strides,
            pads=[before for before, _ in pads] + [behind for _, behind in pads],
            **attributes,
        )
        if whole:
            mean_of_windows(call, made, math.prod(windows))
        else:
            graph.result(call.output.index, made, ChannelOrder.FIRST, call.bounds())

    return rule


def _blocks(kind: str) -> Rule:
    def rule(call: OperatorCall) -> None:
        graph = call.graph
        real = graph.real(call.input(0).index, ChannelOrder.FIRST)
        made = graph.emit(kind, [real], call.output.name, blocksize=call.option("block_size", 0))
        graph.result(call.output.index, made, ChannelOrder.FIRST)

    return rule


RULES: dict[str, Rule] = {
    "AVERAGE_POOL_2D": _pool("AveragePool", count_include_pad=0),
    "DEPTH_TO_SPACE": _blocks("DepthToSpace"),
    "MAX_POOL_2D": _pool("MaxPool"),
    "SPACE_TO_DEPTH": _blocks("SpaceToDepth"),
}
