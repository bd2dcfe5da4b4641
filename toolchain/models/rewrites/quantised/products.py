"""Rewrites convolutions and matrix products of quantised values as sums of integers in float32."""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.models.rewrites.graph import Graph
from toolchain.models.rewrites.quantised.values import as_float, centred, requantised, zero_of
from toolchain.models.walk import attributes_of

INT32 = onnx.TensorProto.INT32


def convolution(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `QLinearConv` with inputs (x, scale, zero, w, scale, zero, y's scale, zero, bias)."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = node.input
    shape = graph.shape(w)
    own = attributes_of(node)
    if shape is None or own.pop("channels_last", 0):
        return False
    along = (1, -1, *[1] * (len(shape) - 2))
    inputs = [centred(graph, x, x_zero), centred(graph, w, w_zero, (-1, *[1] * (len(shape) - 1)))]
    if bias and bias[0]:
        inputs.append(as_float(graph, bias[0]))
    sums = graph.emit("Conv", inputs, **own)
    factor = _factor(graph, x_scale, w_scale, y_scale)
    if (graph.shape(w_scale) or ()) != ():
        factor = graph.reshape(factor, along)
    requantised(graph, sums, factor, y_zero, list(node.output))
    return True


def integer_convolution(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `ConvInteger` with inputs (x, w, x's zero, w's zero); the result is int32."""
    x, w, *zeros = node.input
    shape = graph.shape(w)
    if shape is None:
        return False
    x_zero, w_zero = [*zeros, "", ""][:2]
    per_output = (-1, *[1] * (len(shape) - 1))
    inputs = [centred(graph, x, x_zero), centred(graph, w, w_zero, per_output)]
    graph.emit("Cast", [graph.emit("Conv", inputs, **attributes_of(node))], node.output, to=INT32)
    return True


def product(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `QLinearMatMul` with inputs (a, scale, zero, b, scale, zero, y's scale, zero)."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    sums = graph.emit("MatMul", [_rows(graph, a, a_zero), centred(graph, b, b_zero)])
    if len(graph.shape(a_scale) or ()) == 1 and graph.shape(a_scale) != (1,):
        a_scale = graph.reshape(as_float(graph, a_scale), (-1, 1))
    requantised(graph, sums, _factor(graph, a_scale, b_scale, y_scale), y_zero, list(node.output))
    return True


def integer_product(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `MatMulInteger` with inputs (a, b, a's zero, b's zero); the result is int32."""
    a, b, *zeros = node.input
    a_zero, b_zero = [*zeros, "", ""][:2]
    inputs = [_rows(graph, a, a_zero), centred(graph, b, b_zero)]
    graph.emit("Cast", [graph.emit("MatMul", inputs)], node.output, to=INT32)
    return True


def integer_product_to_float(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `com.microsoft.MatMulIntegerToFloat`.

    Its inputs are (a, b, a's scale, b's scale, a's zero, b's zero, bias).
    """
    a, b, a_scale, b_scale, *rest = node.input
    a_zero, b_zero, bias = [*rest, "", "", ""][:3]
    sums = graph.emit("MatMul", [_rows(graph, a, a_zero), centred(graph, b, b_zero)])
    scaled = [sums, graph.emit("Mul", [a_scale, b_scale])]
    if not bias:
        graph.emit("Mul", scaled, node.output)
        return True
    graph.emit("Add", [graph.emit("Mul", scaled), bias], node.output)
    return True


def dynamic_product(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `com.microsoft.DynamicQuantizeMatMul` with inputs (a in float, b, b's scale, zero, bias)."""
    a, b, b_scale, *rest = node.input
    b_zero, bias = [*rest, "", ""][:2]
    names = [graph.free(f"{a}.{part}") for part in ("quantised", "scale", "zero")]
    graph.emit("DynamicQuantizeLinear", [a], names)
    quantised, a_scale, a_zero = names
    inputs = [quantised, b, a_scale, b_scale, a_zero, b_zero, bias]
    return integer_product_to_float(
        onnx.helper.make_node("MatMulIntegerToFloat", inputs, list(node.output)), graph
    )


def gemm(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `com.microsoft.QGemm` with inputs (a, scale, zero, b, scale, zero, c, y's scale, zero)."""
    a, a_scale, a_zero, b, b_scale, b_zero, *rest = node.input
    c, y_scale, y_zero = [*rest, "", "", ""][:3]
    own = attributes_of(node)
    inputs = [centred(graph, a, a_zero), centred(graph, b, b_zero, (-1, 1) if own.get("transB") else (1, -1))]
    sums = graph.emit("Gemm", inputs, transA=own.get("transA"), transB=own.get("transB"))
    if c:
        sums = graph.emit("Add", [sums, as_float(graph, c)])
    if own.get("alpha", 1.0) != 1.0:
        a_scale = graph.emit("Mul", [a_scale, graph.constant(np.float32(own["alpha"]))])
    factor = _factor(graph, a_scale, b_scale, y_scale)
    if y_scale:
        requantised(graph, sums, factor, zero_of(graph, y_zero), list(node.output))
    else:
        graph.emit("Mul", [sums, factor], node.output)
    return True


def _factor(graph: Graph, one: str, other: str, out: str) -> str:
    """Write the factor of the sums, computed in float32 in the same order as onnxruntime."""
    both = graph.emit("Mul", [as_float(graph, one), as_float(graph, other)])
    return graph.emit("Div", [both, as_float(graph, out)]) if out else both


def _rows(graph: Graph, name: str, zero: str) -> str:
    """Write the left operand of a product minus its zero point, which may differ by row."""
    return centred(graph, name, zero, (-1, 1))
