"""Reductions over dimensions, and what is divided by one."""

from __future__ import annotations

import math

from toolchain.models.tflite.call import OperatorCall, Rule
from toolchain.models.tflite.layout import ChannelOrder, placed
from toolchain.models.tflite.steps import in_steps, mean_over


def _reduced(kind: str) -> Rule:
    def rule(call: OperatorCall) -> None:
        graph, x = call.graph, call.input(0)
        axes = sorted({placed(axis, x.rank, ChannelOrder.LAST) for axis in call.numbers(1, "axes")})
        keeps = call.option("keep_dims", False)
        spatial = x.rank == 4 and axes == [1, 2]
        layout = graph.layout_of(x.index) if spatial or keeps else ChannelOrder.LAST
        result = call.output
        where = sorted(placed(axis, x.rank, layout) for axis in axes)
        rules = in_steps(x, result) if kind == "Mean" else None
        if rules:
            mean_over(call, rules, where, layout)
            return
        real = graph.real(x.index, layout)
        if (
            kind == "Mean" and x.rank == 4 and where == [2, 3]
        ):  # of NCHW; or of a tensor that is so in the file
            made = graph.emit("GlobalAveragePool", [real], result.name)
            if not keeps:
                made = graph.settled(made, result)
                made = graph.emit("Reshape", [made, graph.integers(result.shape)], result.name)
        elif kind == "Sum":  # the only one of this operator set with axes as an input
            made = graph.emit("ReduceSum", [real, graph.integers(where)], result.name, keepdims=int(keeps))
        else:
            made = graph.emit(f"Reduce{kind}", [real], result.name, axes=where, keepdims=int(keeps))
        graph.result(result.index, made, layout)

    return rule


def _place_of(kind: str) -> Rule:
    def rule(call: OperatorCall) -> None:
        graph, x = call.graph, call.input(0)
        (axis,) = call.numbers(1, "an axis")
        made = graph.emit(kind, [graph.real(x.index)], call.output.name, axis=axis, keepdims=0)
        if call.output.dtype != "int64":
            made = graph.emit("Cast", [made], call.output.name, to=_INT32)
        graph.define(call.output.index, made)

    return rule


def softmax(call: OperatorCall) -> None:
    """Translate SOFTMAX, along the last dimension."""
    graph = call.graph
    real, beta = graph.real(call.input(0).index), float(call.option("beta", 1.0))
    if not math.isfinite(beta):
        raise ValueError(f"beta {beta}")
    if beta != 1.0:
        real = graph.emit("Mul", [real, graph.float(beta)], call.output.name)
    graph.result(call.output.index, graph.emit("Softmax", [real], call.output.name, axis=-1))


def log_softmax(call: OperatorCall) -> None:
    """Translate LOG_SOFTMAX, along the last dimension."""
    real = call.graph.real(call.input(0).index)
    call.graph.result(call.output.index, call.graph.emit("LogSoftmax", [real], call.output.name, axis=-1))


def unit_length(call: OperatorCall) -> None:
    """Translate L2_NORMALIZATION, along the last dimension; a vector of less than 1e-6 is divided by that."""
    graph = call.graph
    real = graph.real(call.input(0).index)
    length = graph.emit("ReduceL2", [real], call.output.name, axes=[-1], keepdims=1)
    divisor = graph.emit("Max", [length, graph.float(1e-6)], call.output.name)
    graph.result(
        call.output.index, graph.emit("Div", [real, divisor], call.output.name), bounds=call.bounds()
    )


_INT32 = 6  # onnx.TensorProto.INT32

RULES: dict[str, Rule] = {
    "ARG_MAX": _place_of("ArgMax"),
    "ARG_MIN": _place_of("ArgMin"),
    "L2_NORMALIZATION": unit_length,
    "LOG_SOFTMAX": log_softmax,
    "MEAN": _reduced("Mean"),
    "REDUCE_MAX": _reduced("Max"),
    "REDUCE_MIN": _reduced("Min"),
    "REDUCE_PROD": _reduced("Prod"),
    "SOFTMAX": softmax,
    "SUM": _reduced("Sum"),
}
