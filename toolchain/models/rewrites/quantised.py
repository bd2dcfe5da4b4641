"""Operators on quantised values, as the same arithmetic on floats.

Products of integers are summed up in float32: exact as long as a sum stays below 2 ** 24, far beyond what
a convolution of 8-bit values usually reaches. What is rounded to integers again is rounded by
QuantizeLinear, once.
"""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.models.rewrites.graph import Graph
from toolchain.models.walk import attributes_of

FLOAT = onnx.TensorProto.FLOAT
INT32 = onnx.TensorProto.INT32


def quantised_convolution(node: onnx.NodeProto, graph: Graph) -> bool:
    """`QLinearConv`: (x, scale, zero, w, scale, zero, y's scale, zero, bias)."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = node.input
    shape = graph.shape(w)
    if shape is None:
        return False
    along = (1, -1, *[1] * (len(shape) - 2))
    inputs = [_centred(graph, x, x_zero), _centred(graph, w, w_zero, (-1, *[1] * (len(shape) - 1)))]
    if bias and bias[0]:
        inputs.append(_float(graph, bias[0]))
    summed = graph.emit("Conv", inputs, **attributes_of(node))
    scale = graph.emit("Mul", [_float(graph, x_scale), _float(graph, w_scale)])
    if (graph.shape(w_scale) or ()) != ():
        scale = graph.reshape(scale, along)
    real = graph.emit("Mul", [summed, scale])
    graph.emit("QuantizeLinear", [real, y_scale, y_zero], node.output)
    return True


def integer_convolution(node: onnx.NodeProto, graph: Graph) -> bool:
    """`ConvInteger`: (x, w, x's zero, w's zero), to int32."""
    x, w, *zeros = node.input
    shape = graph.shape(w)
    if shape is None:
        return False
    x_zero, w_zero = [*zeros, "", ""][:2]
    per_output = (-1, *[1] * (len(shape) - 1))
    inputs = [_centred(graph, x, x_zero), _centred(graph, w, w_zero, per_output)]
    graph.emit("Cast", [graph.emit("Conv", inputs, **attributes_of(node))], node.output, to=INT32)
    return True


def quantised_product(node: onnx.NodeProto, graph: Graph) -> bool:
    """`QLinearMatMul`: (a, scale, zero, b, scale, zero, y's scale, zero)."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    summed = graph.emit("MatMul", [_rows(graph, a, a_zero), _centred(graph, b, b_zero)])
    scales = [_float(graph, name) for name in (a_scale, b_scale)]
    if len(graph.shape(a_scale) or ()) == 1 and graph.shape(a_scale) != (1,):
        scales[0] = graph.reshape(scales[0], (-1, 1))
    real = graph.emit("Mul", [graph.emit("Mul", [summed, scales[0]]), scales[1]])
    graph.emit("QuantizeLinear", [real, _float(graph, y_scale), y_zero], node.output)
    return True


def integer_product(node: onnx.NodeProto, graph: Graph) -> bool:
    """`MatMulInteger`: (a, b, a's zero, b's zero), to int32."""
    a, b, *zeros = node.input
    a_zero, b_zero = [*zeros, "", ""][:2]
    inputs = [_rows(graph, a, a_zero), _centred(graph, b, b_zero)]
    graph.emit("Cast", [graph.emit("MatMul", inputs)], node.output, to=INT32)
    return True


def quantised_gemm(node: onnx.NodeProto, graph: Graph) -> bool:
    """`com.microsoft.QGemm`: (a, scale, zero, b, scale, zero, c, y's scale, zero)."""
    a, a_scale, a_zero, b, b_scale, b_zero, *rest = node.input
    c, y_scale, y_zero = [*rest, "", "", ""][:3]
    own = attributes_of(node)
    inputs = [
        _centred(graph, a, a_zero),
        _centred(graph, b, b_zero, (-1, 1) if own.get("transB") else (1, -1)),
    ]
    product = graph.emit("Gemm", inputs, transA=own.get("transA"), transB=own.get("transB"))
    if c:
        product = graph.emit("Add", [product, _float(graph, c)])
    scale = graph.emit("Mul", [a_scale, b_scale])
    if own.get("alpha", 1.0) != 1.0:
        scale = graph.emit("Mul", [scale, graph.constant(np.float32(own["alpha"]))])
    if not y_scale:
        graph.emit("Mul", [product, scale], node.output)
        return True
    graph.emit("QuantizeLinear", [graph.emit("Mul", [product, scale]), y_scale, y_zero], node.output)
    return True


def quantised_pair(operator: str):  # type: ignore[no-untyped-def]
    """Return the rule of `com.microsoft.QLinearAdd` and its like: (a, scale, zero, b, scale, zero, …)."""

    def rule(node: onnx.NodeProto, graph: Graph) -> bool:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, *y_zero = node.input
        real = graph.emit(
            operator,
            [
                graph.emit("DequantizeLinear", [name for name in each if name])
                for each in ((a, a_scale, a_zero), (b, b_scale, b_zero))
            ],
        )
        graph.emit("QuantizeLinear", [real, y_scale, *y_zero], node.output)
        return True

    return rule


def quantised_single(operator: str):  # type: ignore[no-untyped-def]
    """Return the rule of `com.microsoft.QLinearSigmoid` and its like: (x, scale, zero, y's scale, zero)."""

    def rule(node: onnx.NodeProto, graph: Graph) -> bool:
        x, x_scale, x_zero, y_scale, *y_zero = node.input
        own = attributes_of(node)
        if own.pop("channels_last", 0):
            return False
        real = graph.emit(
            operator, [graph.emit("DequantizeLinear", [name for name in (x, x_scale, x_zero) if name])], **own
        )
        graph.emit("QuantizeLinear", [real, y_scale, *y_zero], node.output)
        return True

    return rule


def quantised_concatenation(node: onnx.NodeProto, graph: Graph) -> bool:
    """`com.microsoft.QLinearConcat`: (y's scale, zero, then x, scale, zero of each)."""
    y_scale, y_zero, *rest = node.input
    parts = [graph.emit("DequantizeLinear", rest[place : place + 3]) for place in range(0, len(rest), 3)]
    real = graph.emit("Concat", parts, **attributes_of(node))
    graph.emit("QuantizeLinear", [real, y_scale, y_zero], node.output)
    return True


def _float(graph: Graph, name: str) -> str:
    stored = graph.value(name)
    if stored is not None:
        return graph.constant(stored.astype(np.float32), f"{name}.float")
    return name if graph.dtype(name) == "float32" else graph.emit("Cast", [name], to=FLOAT)


def _centred(graph: Graph, name: str, zero: str, along: tuple[int, ...] | None = None) -> str:
    """Write integers less their zero point, as floats; `along`: the shape of one per channel."""
    values, zeros = graph.value(name), graph.value(zero) if zero else np.float32(0)
    shaped = zeros
    if zeros is not None and np.ndim(zeros) == 1 and along:
        shaped = np.reshape(zeros, along)
    if values is not None and shaped is not None:
        return graph.constant(values.astype(np.float32) - np.asarray(shaped, np.float32), f"{name}.float")
    real = _float(graph, name)
    if zeros is not None and not np.any(zeros):
        return real
    offset = _float(graph, zero)
    if along and len(graph.shape(zero) or ()) == 1:
        offset = graph.reshape(offset, along)
    return graph.emit("Sub", [real, offset])


def _rows(graph: Graph, name: str, zero: str) -> str:
    """Write the left operand of a product less its zero point, of which there may be one for each row."""
    return _centred(graph, name, zero, (-1, 1))
