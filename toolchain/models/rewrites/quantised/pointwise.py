"""Quantised values taken one by one, or moved: sums, products, functions, concatenations."""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.models.rewrites.graph import Graph, Rule
from toolchain.models.rewrites.quantised.values import apart, as_float, centred, real, rounded, zero_of
from toolchain.models.walk import attributes_of

HALF_OF_THE_BITS = 12


def addition(node: onnx.NodeProto, graph: Graph) -> bool:
    """`com.microsoft.QLinearAdd`: (a, scale, zero, b, scale, zero, y's scale, zero).

    onnxruntime computes `fma(a, ra, fma(b, rb, c))` with `ra = a's scale / y's` and the zero points in
    `c`, and rounds that to the nearest integer: this does the same.
    """
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, *rest = node.input
    y_zero = zero_of(graph, *rest) if rest else zero_of(graph, "")
    names = (a_scale, b_scale, y_scale)
    scales = [graph.value(name) for name in names]
    zeros = [graph.value(name) if name else np.uint8(0) for name in (a_zero, b_zero, y_zero)]
    if any(each is None or each.size != 1 for each in (*scales, *zeros)):
        return _in_floats(node, graph)
    sa, sb, sy = (np.float32(np.reshape(each, ())) for each in scales)  # type: ignore[arg-type]
    za, zb, zy = (np.float64(np.reshape(each, ())) for each in zeros)  # type: ignore[arg-type]
    ra, rb = sa / sy, sb / sy
    offset = np.float32(zy - np.float64(np.float32(rb * zb + np.float64(ra * np.float32(za)))))
    inner = _fused(graph, as_float(graph, b), rb, graph.constant(offset))
    steps = _fused(graph, as_float(graph, a), ra, inner)
    none = graph.constant(np.zeros((), graph.value(y_zero).dtype), "zero")  # type: ignore[union-attr]
    rounded(graph, steps, none, list(node.output))
    return True


def _fused(graph: Graph, steps: str, factor: np.float32, more: str) -> str:
    """Write steps * factor + more, rounded once as a fused multiply-add does, for integers of 8 bits.

    The factor is the sum of two floats of 12 bits: their products with 8 bits are exact, and so is the
    error of the sum of the larger one and `more`.
    """
    bits = np.float32(factor).view(np.uint32) & np.uint32(0xFFFFFFFF << HALF_OF_THE_BITS & 0xFFFFFFFF)
    high = bits.view(np.float32)
    large = graph.emit("Mul", [steps, graph.constant(high)])
    small = graph.emit("Mul", [steps, graph.constant(np.float32(factor - high))])
    total = graph.emit("Add", [large, more])
    taken = graph.emit("Sub", [total, large])
    lost = graph.emit(
        "Add",
        [
            graph.emit("Sub", [large, graph.emit("Sub", [total, taken])]),
            graph.emit("Sub", [more, taken]),
        ],
    )
    return graph.emit("Add", [total, graph.emit("Add", [lost, small])])


def _in_floats(node: onnx.NodeProto, graph: Graph) -> bool:
    """`QLinearAdd` whose scales are no constants."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, *y_zero = node.input
    value = graph.emit("Add", [real(graph, a, a_scale, a_zero), real(graph, b, b_scale, b_zero)])
    graph.emit("QuantizeLinear", [value, y_scale, *y_zero], node.output)
    return True


def multiplication(node: onnx.NodeProto, graph: Graph) -> bool:
    """`com.microsoft.QLinearMul`: (a, scale, zero, b, scale, zero, y's scale, zero).

    As onnxruntime does: the product of the integers times a factor, plus the zero point, then rounded.
    """
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, *rest = node.input
    y_zero = zero_of(graph, *rest) if rest else zero_of(graph, "")
    exact = graph.emit("Mul", [centred(graph, a, a_zero), centred(graph, b, b_zero)])
    factor = graph.emit("Div", [graph.emit("Mul", [a_scale, b_scale]), y_scale])
    scaled = apart(graph, graph.emit("Mul", [exact, factor]))
    steps = graph.emit("Add", [scaled, as_float(graph, y_zero)])
    none = graph.constant(np.zeros((), graph.dtype(y_zero)), "zero")
    rounded(graph, steps, none, list(node.output))
    return True


def single(operator: str) -> Rule:
    """Return the rule of `com.microsoft.QLinearSigmoid` and its like: (x, scale, zero, y's scale, zero)."""

    def rule(node: onnx.NodeProto, graph: Graph) -> bool:
        x, x_scale, x_zero, y_scale, *y_zero = node.input
        value = graph.emit(operator, [real(graph, x, x_scale, x_zero)], **attributes_of(node))
        graph.emit("QuantizeLinear", [value, y_scale, *y_zero], node.output)
        return True

    return rule


def softmax(node: onnx.NodeProto, graph: Graph) -> bool:
    """`com.microsoft.QLinearSoftmax`: (x, scale, zero, y's scale, zero).

    Its attribute `opset` says whose Softmax it is: before 13 all axes from `axis` on are one.
    """
    x, x_scale, x_zero, y_scale, *y_zero = node.input
    own, shape = attributes_of(node), graph.shape(x)
    since_13 = own.get("opset", 0) >= 13
    axis = own.get("axis", -1)
    value = real(graph, x, x_scale, x_zero)
    if since_13 != (graph.opset >= 13):
        if shape is None:
            return False
        if axis % len(shape) != len(shape) - 1:  # the two mean different things
            return False
    value = graph.emit("Softmax", [value], axis=axis)
    graph.emit("QuantizeLinear", [value, y_scale, *y_zero], node.output)
    return True


def concatenation(node: onnx.NodeProto, graph: Graph) -> bool:
    """`com.microsoft.QLinearConcat`: (y's scale, zero, then x, scale, zero of each)."""
    y_scale, y_zero, *rest = node.input
    parts = [real(graph, *rest[place : place + 3]) for place in range(0, len(rest), 3)]
    graph.emit(
        "QuantizeLinear", [graph.emit("Concat", parts, **attributes_of(node)), y_scale, y_zero], node.output
    )
    return True


def choice(node: onnx.NodeProto, graph: Graph) -> bool:
    """`com.microsoft.QLinearWhere`: (condition, x, scale, zero, y, scale, zero, z's scale, zero)."""
    condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero = node.input
    value = graph.emit("Where", [condition, real(graph, x, x_scale, x_zero), real(graph, y, y_scale, y_zero)])
    graph.emit("QuantizeLinear", [value, z_scale, z_zero], node.output)
    return True


def standard(operator: str) -> Rule:
    """Return the rule of `com.microsoft.QuantizeLinear` and its like, which are the standard's."""

    def rule(node: onnx.NodeProto, graph: Graph) -> bool:
        graph.emit(operator, list(node.input), list(node.output), **attributes_of(node))
        return True

    return rule
