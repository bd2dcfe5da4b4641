"""Operators that compute each element from one element of each input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import helper

from toolchain.models.tflite.call import OperatorCall, Rule
from toolchain.models.tflite.network import TO_FIRST, ChannelOrder, TfliteTensor
from toolchain.models.tflite.onnx_builder import OnnxGraph

Formula = Callable[[OnnxGraph, str, OperatorCall], str]
"""Function that emits nodes for an elementwise function of one tensor and returns the result's name."""


def _single(kind: str, **attributes: Any) -> Rule:
    """Return the rule of an operator that ONNX has."""
    return _formula(lambda graph, x, call: graph.emit(kind, [x], call.output.name, **attributes))


def _formula(formula: Formula) -> Rule:
    def rule(call: OperatorCall) -> None:
        layout = call.layout()
        output = formula(call.graph, call.graph.real(call.input(0).index, layout), call)
        call.graph.result(call.output.index, output, layout)

    return rule


def _limits(low: float, high: float) -> Rule:
    def rule(call: OperatorCall) -> None:
        layout = call.layout()
        real = call.graph.real(call.input(0).index, layout)
        output = call.graph.limited(real, (low, high), call.output)
        call.graph.result(call.output.index, output, layout)

    return rule


def _pair(kind: str) -> Rule:
    """Return the rule of an operator on two tensors, which are broadcast from their last dimensions."""

    def rule(call: OperatorCall) -> None:
        layout = call.layout()
        inputs = [operand(call, tensor, layout) for tensor in (call.input(0), call.input(1))]
        output = call.graph.emit(kind, inputs, call.output.name)
        call.graph.result(call.output.index, output, layout, call.bounds())

    return rule


def operand(call: OperatorCall, tensor: TfliteTensor, layout: ChannelOrder) -> str:
    """Return the name of an operand's numbers; constants of lower rank are fitted to NCHW."""
    graph = call.graph
    if layout is ChannelOrder.LAST or tensor.rank == 4:
        return graph.real(tensor.index, layout)
    real = graph.real(tensor.index)
    if math.prod(tensor.shape) == 1:
        return real
    shape = [1] * (4 - tensor.rank) + [*tensor.shape]
    if shape[1] == shape[2] == 1:  # values of channels: they lie as they are
        return graph.emit("Reshape", [real, graph.integers([shape[i] for i in TO_FIRST])], tensor.name)
    whole = graph.emit("Reshape", [real, graph.integers(shape)], tensor.name)
    return graph.emit("Transpose", [whole], tensor.name, perm=TO_FIRST)


def _compared(kind: str, *, negated: bool = False) -> Rule:
    def rule(call: OperatorCall) -> None:
        layout = call.layout()
        inputs = [operand(call, tensor, layout) for tensor in (call.input(0), call.input(1))]
        output = call.graph.emit(kind, inputs, call.output.name)
        call.graph.define(call.output.index, call.graph.emit("Not", [output]) if negated else output, layout)

    return rule


def _choice(call: OperatorCall) -> None:
    if call.operator.name == "SELECT" and call.input(0).rank == 1 < call.output.rank:
        raise call.refusal("a condition for each row")  # of the first dimension, not of the last as elsewhere
    layout = call.layout()
    output = call.graph.emit(
        "Where", [operand(call, tensor, layout) for tensor in call.inputs], call.output.name
    )
    call.graph.result(call.output.index, output, layout)


def _quotient(call: OperatorCall) -> None:
    """Translate FLOOR_DIV: a quotient rounded down, of integers, too."""
    layout = call.layout()
    x, y = (operand(call, tensor, layout) for tensor in (call.input(0), call.input(1)))
    graph, name = call.graph, call.output.name
    quotient = graph.emit("Div", [x, y], name)
    if call.output.dtype.startswith("float"):
        quotient = graph.emit("Floor", [quotient], name)
    else:  # ONNX rounds to zero: one less where there is a rest and the signs differ
        zero = graph.constant(np.zeros((), call.output.dtype))
        rest = graph.emit("Mod", [x, y], name)  # has the divisor's sign
        broken = graph.emit("Not", [graph.emit("Equal", [rest, zero])])
        unlike = graph.emit("Xor", [graph.emit("Less", [x, zero]), graph.emit("Less", [y, zero])])
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(call.output.dtype))
        less = graph.emit("Cast", [graph.emit("And", [broken, unlike])], to=kind)
        quotient = graph.emit("Sub", [quotient, less], name)
    graph.result(call.output.index, quotient, layout)


def _rest(call: OperatorCall) -> None:
    """Translate FLOOR_MOD, whose result has the divisor's sign."""
    layout = call.layout()
    x, y = (operand(call, tensor, layout) for tensor in (call.input(0), call.input(1)))
    graph, name = call.graph, call.output.name
    if call.output.dtype.startswith("float"):
        whole = graph.emit("Floor", [graph.emit("Div", [x, y], name)], name)
        rest = graph.emit("Sub", [x, graph.emit("Mul", [whole, y], name)], name)
    else:
        rest = graph.emit("Mod", [x, y], name)
    graph.result(call.output.index, rest, layout)


def _angle(call: OperatorCall) -> None:
    """Translate ATAN2, in the four quadrants; 0 for 0 and 0."""
    layout = call.layout()
    y, x = (operand(call, tensor, layout) for tensor in (call.input(0), call.input(1)))
    graph, name = call.graph, call.output.name
    zero, half, whole = (graph.float(value) for value in (0.0, math.pi / 2, math.pi))
    down, left = (graph.emit("Less", [side, zero], name) for side in (y, x))
    none = graph.emit("Equal", [x, zero], name)
    safe = graph.emit("Where", [none, graph.float(1.0), x], name)
    slope = graph.emit("Atan", [graph.emit("Div", [y, safe], name)], name)
    turned = graph.emit("Where", [down, graph.emit("Neg", [whole]), whole], name)
    flat = graph.emit("Where", [left, graph.emit("Add", [slope, turned], name), slope], name)
    upright = graph.emit("Mul", [graph.emit("Sign", [y], name), half], name)
    graph.result(call.output.index, graph.emit("Where", [none, upright, flat], name), layout)


def _sum_of_all(call: OperatorCall) -> None:
    layout = call.layout()
    total, *others = [operand(call, tensor, layout) for tensor in call.inputs]
    for other in others:  # ONNX's Sum has no integers
        total = call.graph.emit("Add", [total, other], call.output.name)
    call.graph.result(call.output.index, total, layout)


def _slopes(call: OperatorCall) -> None:
    layout = call.layout()
    inputs = [operand(call, tensor, layout) for tensor in (call.input(0), call.input(1))]
    call.graph.result(call.output.index, call.graph.emit("PRelu", inputs, call.output.name), layout)


def _squared_difference(call: OperatorCall) -> None:
    layout = call.layout()
    inputs = [operand(call, tensor, layout) for tensor in (call.input(0), call.input(1))]
    less = call.graph.emit("Sub", inputs, call.output.name)
    call.graph.result(call.output.index, call.graph.emit("Mul", [less, less], call.output.name), layout)


def _reciprocal_root(graph: OnnxGraph, x: str, call: OperatorCall) -> str:
    return graph.emit("Reciprocal", [graph.emit("Sqrt", [x], call.output.name)], call.output.name)


def _gelu(graph: OnnxGraph, x: str, call: OperatorCall) -> str:
    """x * Phi(x): by erf, or by the tanh that approximates it."""
    name = call.output.name
    if call.option("approximate", False):
        cube = graph.emit("Mul", [graph.emit("Mul", [x, x], name), x], name)
        inner = graph.emit("Add", [x, graph.emit("Mul", [cube, graph.float(0.044715)], name)], name)
        bent = graph.emit(
            "Tanh", [graph.emit("Mul", [inner, graph.float(math.sqrt(2 / math.pi))], name)], name
        )
    else:
        bent = graph.emit("Erf", [graph.emit("Mul", [x, graph.float(math.sqrt(0.5))], name)], name)
    half = graph.emit("Mul", [x, graph.float(0.5)], name)
    return graph.emit("Mul", [half, graph.emit("Add", [bent, graph.float(1.0)], name)], name)


def _leaky(graph: OnnxGraph, x: str, call: OperatorCall) -> str:
    return graph.emit("LeakyRelu", [x], call.output.name, alpha=float(call.option("alpha", 0.0)))


_SINGLE = {
    "ABS": "Abs",
    "CEIL": "Ceil",
    "COS": "Cos",
    "ELU": "Elu",
    "EXP": "Exp",
    "FLOOR": "Floor",
    "HARD_SWISH": "HardSwish",
    "LOG": "Log",
    "LOGICAL_NOT": "Not",
    "LOGISTIC": "Sigmoid",
    "NEG": "Neg",
    "ROUND": "Round",
    "SIGN": "Sign",
    "SIN": "Sin",
    "SQRT": "Sqrt",
    "TANH": "Tanh",
}
_PAIRS = {
    "ADD": "Add",
    "DIV": "Div",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "MUL": "Mul",
    "POW": "Pow",
    "SUB": "Sub",
}

RULES: dict[str, Rule] = {
    **{name: _single(kind) for name, kind in _SINGLE.items()},
    **{name: _pair(kind) for name, kind in _PAIRS.items()},
    "ADD_N": _sum_of_all,
    "ATAN2": _angle,
    "EQUAL": _compared("Equal"),
    "FLOOR_DIV": _quotient,
    "FLOOR_MOD": _rest,
    "GELU": _formula(_gelu),
    "GREATER": _compared("Greater"),
    "GREATER_EQUAL": _compared("GreaterOrEqual"),
    "LEAKY_RELU": _formula(_leaky),
    "LESS": _compared("Less"),
    "LESS_EQUAL": _compared("LessOrEqual"),
    "NOT_EQUAL": _compared("Equal", negated=True),
    "PRELU": _slopes,
    "RELU": _limits(0.0, math.inf),
    "RELU6": _limits(0.0, 6.0),
    "RELU_N1_TO_1": _limits(-1.0, 1.0),
    "RELU_0_TO_1": _limits(0.0, 1.0),
    "RSQRT": _formula(_reciprocal_root),
    "SELECT": _choice,
    "SELECT_V2": _choice,
    "SQUARE": _formula(lambda graph, x, call: graph.emit("Mul", [x, x], call.output.name)),
    "SQUARED_DIFFERENCE": _squared_difference,
}
