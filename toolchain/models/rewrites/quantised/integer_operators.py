"""Rewrite rules for quantised operators, whose sums become exact integers in float32."""

from __future__ import annotations

import itertools
import math

import numpy as np
import onnx

from toolchain.models.onnx_graph import attributes_of
from toolchain.models.rewrites.graph import Graph, Rule
from toolchain.models.rewrites.quantised.values import (
    apart,
    as_float,
    centred,
    real,
    requantised,
    rounded,
    zero_of,
)

# Rewrites convolutions and matrix products of quantised values as sums of integers in float32.

INT32 = onnx.TensorProto.INT32


def convolution(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `QLinearConv` with inputs (x, scale, zero, w, scale, zero, y's scale, zero, bias)."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = node.input
    shape = graph.shape(w)
    attributes = attributes_of(node)
    if shape is None or attributes.pop("channels_last", 0):
        return False
    along = (1, -1, *[1] * (len(shape) - 2))
    inputs = [centred(graph, x, x_zero), centred(graph, w, w_zero, (-1, *[1] * (len(shape) - 1)))]
    if bias and bias[0]:
        inputs.append(as_float(graph, bias[0]))
    sums = graph.emit("Conv", inputs, **attributes)
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
    attributes = attributes_of(node)
    inputs = [
        centred(graph, a, a_zero),
        centred(graph, b, b_zero, (-1, 1) if attributes.get("transB") else (1, -1)),
    ]
    sums = graph.emit("Gemm", inputs, transA=attributes.get("transA"), transB=attributes.get("transB"))
    if c:
        sums = graph.emit("Add", [sums, as_float(graph, c)])
    if attributes.get("alpha", 1.0) != 1.0:
        a_scale = graph.emit("Mul", [a_scale, graph.constant(np.float32(attributes["alpha"]))])
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


# Rewrites elementwise quantised operators: sums, products, functions, concatenations.

DIGITS = 24
"""Significant bits of a float32."""


def addition(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `com.microsoft.QLinearAdd` with inputs (a, scale, zero, b, scale, zero, y's scale, zero).

    onnxruntime computes `fma(a, ra, fma(b, rb, c))` with `ra = a's scale / y's`, likewise `rb`, and
    `c = y's zero - fma(ra, a's zero, rb * b's zero)`, and rounds that to the nearest integer: this does
    the same. Where one of both is one number for each row of the other, that is its `b`.
    """
    first, second, (y_scale, *rest) = node.input[:3], node.input[3:6], node.input[6:]
    if _repeats(graph.shape(first[0]), graph.shape(second[0])):
        first, second = second, first
    (a, a_scale, a_zero), (b, b_scale, b_zero) = first, second
    y_zero = zero_of(graph, *rest) if rest else zero_of(graph, "")
    names = (a_scale, b_scale, y_scale)
    scales = [graph.value(name) for name in names]
    zeros = [graph.value(name) if name else np.uint8(0) for name in (a_zero, b_zero, y_zero)]
    if any(zero is None or zero.size != 1 for zero in (*scales, *zeros)):
        return _in_floats(node, graph)
    sa, sb, sy = (np.float32(np.reshape(scale, ())) for scale in scales)  # type: ignore[arg-type]
    za, zb, zy = (np.float64(np.reshape(tensor, ())) for tensor in zeros)  # type: ignore[arg-type]
    ra, rb = sa / sy, sb / sy
    centre = np.float32(ra * za + np.float64(np.float32(rb * zb)))
    offset = np.float32(zy - np.float64(centre))
    _, digits = math.frexp(256 * (float(ra) + float(rb)) + abs(float(offset)))
    grid = np.float32(2.0 ** (digits + 1 - DIGITS))
    coarse = _coarse(offset, grid)
    inner = _fused(
        graph, as_float(graph, b), rb, grid, graph.constant(coarse), graph.constant(offset - coarse)
    )
    near = graph.emit("Mul", [graph.emit("Round", [graph.emit("Mul", [inner, graph.constant(1 / grid)])]),
                              graph.constant(grid)])  # fmt: skip
    steps = _fused(graph, as_float(graph, a), ra, grid, near, graph.emit("Sub", [inner, near]))
    none = graph.constant(np.zeros((), graph.value(y_zero).dtype), "zero")  # type: ignore[union-attr]
    rounded(graph, steps, none, list(node.output))
    return True


def _repeats(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> bool:
    """Whether broadcasting repeats each number of the first operand for adjacent numbers of the second."""
    if one is None or other is None:
        return False
    for mine, its in itertools.zip_longest(reversed(one), reversed(other), fillvalue=1):
        if mine != 1 or its != 1:
            return mine == 1
    return False


def _coarse(number: np.float32, grid: np.float32) -> np.float32:
    return np.float32(np.rint(number / grid) * grid)


def _fused(graph: Graph, steps: str, factor: np.float32, grid: np.float32, coarse: str, fine: str) -> str:
    """Write steps * factor + coarse + fine, rounded once as a fused multiply-add does; steps have 8 bits.

    The factor is the sum of a multiple of the grid and what is left, like the other number. All products
    are exact, and so are the sum of the multiples and that of the rest: only the last sum is rounded. (The
    rest has too many digits where a factor is below 1/128, or one is far below the other: it is rounded,
    too, by 1e-9.) There is no `(x + y) - x` here, the usual way to what a sum has lost: TVM makes it y.
    """
    high = _coarse(factor, grid)
    large = graph.emit("Add", [graph.emit("Mul", [steps, graph.constant(high)]), coarse])
    small = graph.emit("Add", [graph.emit("Mul", [steps, graph.constant(factor - high)]), fine])
    return graph.emit("Add", [large, small])


def _in_floats(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `QLinearAdd` whose scales are not constant."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, *y_zero = node.input
    value = graph.emit("Add", [real(graph, a, a_scale, a_zero), real(graph, b, b_scale, b_zero)])
    graph.emit("QuantizeLinear", [value, y_scale, *y_zero], node.output)
    return True


def multiplication(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `com.microsoft.QLinearMul` with inputs (a, scale, zero, b, scale, zero, y's scale, zero).

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
    """Return the rule for unary operators such as `QLinearSigmoid`: (x, scale, zero, y's scale, zero)."""

    def rule(node: onnx.NodeProto, graph: Graph) -> bool:
        x, x_scale, x_zero, y_scale, *y_zero = node.input
        value = graph.emit(operator, [real(graph, x, x_scale, x_zero)], **attributes_of(node))
        graph.emit("QuantizeLinear", [value, y_scale, *y_zero], node.output)
        return True

    return rule


def softmax(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `com.microsoft.QLinearSoftmax` with inputs (x, scale, zero, y's scale, zero).

    Its attribute `opset` says which version of Softmax it means: before 13, it sums over all axes from `axis`
    on, and not over `axis` alone.
    """
    x, x_scale, x_zero, y_scale, *y_zero = node.input
    attributes, shape = attributes_of(node), graph.shape(x)
    since_13 = attributes.get("opset", 0) >= 13
    axis = attributes.get("axis", -1)
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
    """Rewrite `com.microsoft.QLinearConcat` with inputs (y's scale, zero, then x, scale, zero of each)."""
    y_scale, y_zero, *rest = node.input
    parts = [real(graph, *rest[place : place + 3]) for place in range(0, len(rest), 3)]
    graph.emit(
        "QuantizeLinear", [graph.emit("Concat", parts, **attributes_of(node)), y_scale, y_zero], node.output
    )
    return True


def choice(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `com.microsoft.QLinearWhere`.

    Its inputs are (condition, x, scale, zero, y, scale, zero, z's scale, zero).
    """
    condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero = node.input
    value = graph.emit("Where", [condition, real(graph, x, x_scale, x_zero), real(graph, y, y_scale, y_zero)])
    graph.emit("QuantizeLinear", [value, z_scale, z_zero], node.output)
    return True


def standard(operator: str) -> Rule:
    """Return the rule that replaces an operator of `com.microsoft` by the standard operator of that name."""

    def rule(node: onnx.NodeProto, graph: Graph) -> bool:
        graph.emit(operator, list(node.input), list(node.output), **attributes_of(node))
        return True

    return rule


# Rewrites average pools of quantised values.


def global_average_pool(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `com.microsoft.QLinearGlobalAveragePool` with inputs (x, scale, zero, y's scale, zero)."""
    x, x_scale, x_zero, y_scale, *rest = node.input
    shape = graph.shape(x)
    if shape is None or attributes_of(node).get("channels_last", 0):
        return False
    sums = graph.reduce("ReduceSum", centred(graph, x, x_zero), range(2, len(shape)))
    count = graph.constant(np.float32(math.prod(shape[2:])))
    factor = graph.emit("Div", [x_scale, graph.emit("Mul", [y_scale, count])])
    requantised(graph, sums, factor, zero_of(graph, *rest) if rest else zero_of(graph, ""), list(node.output))
    return True


def average_pool(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `com.microsoft.QLinearAveragePool` with inputs (x, scale, zero, y's scale, zero).

    onnxruntime rounds after it has added the zero point, so that halves go another way than in the standard.
    """
    x, x_scale, x_zero, y_scale, *rest = node.input
    attributes = attributes_of(node)
    if attributes.pop("channels_last", 0):
        return False
    y_zero = zero_of(graph, *rest) if rest else zero_of(graph, "")
    mean = graph.emit("AveragePool", [real(graph, x, x_scale, x_zero)], **attributes)
    steps = graph.emit("Add", [graph.emit("Div", [mean, y_scale]), as_float(graph, y_zero)])
    none = graph.constant(np.zeros((), graph.dtype(y_zero)), "zero")
    rounded(graph, steps, none, list(node.output))
    return True


MICROSOFT = "com.microsoft."

CONVOLUTION_WITH_FLOATS, GEMM_WITH_FLOATS = "QLinearConvWithFloats", "QGemmWithFloats"
"""Our own operators: like those of integers, but with a bias in floats, in steps of the sums."""

OWN = frozenset({f"{MICROSOFT}{CONVOLUTION_WITH_FLOATS}", f"{MICROSOFT}{GEMM_WITH_FLOATS}"})
"""Operators that only the toolchain itself writes; no file has them."""

RULES: dict[str, Rule] = {
    "ConvInteger": integer_convolution,
    "MatMulInteger": integer_product,
    "QLinearConv": convolution,
    "QLinearMatMul": product,
    f"{MICROSOFT}DequantizeLinear": standard("DequantizeLinear"),
    f"{MICROSOFT}DynamicQuantizeMatMul": dynamic_product,
    f"{MICROSOFT}MatMulIntegerToFloat": integer_product_to_float,
    f"{MICROSOFT}QGemm": gemm,
    f"{MICROSOFT}{GEMM_WITH_FLOATS}": gemm,
    f"{MICROSOFT}QLinearAdd": addition,
    f"{MICROSOFT}QLinearAveragePool": average_pool,
    f"{MICROSOFT}QLinearConcat": concatenation,
    f"{MICROSOFT}QLinearConv": convolution,
    f"{MICROSOFT}{CONVOLUTION_WITH_FLOATS}": convolution,
    f"{MICROSOFT}QLinearGlobalAveragePool": global_average_pool,
    f"{MICROSOFT}QLinearLeakyRelu": single("LeakyRelu"),
    f"{MICROSOFT}QLinearMul": multiplication,
    f"{MICROSOFT}QLinearSigmoid": single("Sigmoid"),
    f"{MICROSOFT}QLinearSoftmax": softmax,
    f"{MICROSOFT}QLinearWhere": choice,
    f"{MICROSOFT}QuantizeLinear": standard("QuantizeLinear"),
}
"""Operator type -> the rule that replaces it."""
