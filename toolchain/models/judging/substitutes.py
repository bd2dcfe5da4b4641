"""Substitutes for operators that onnxruntime computes less exactly than a board does, or not at all.

docs/judges.md has how far onnxruntime is off for each operator, and is made by measuring it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import onnx
from onnx import helper

from toolchain.models.onnx_graph import attributes_of
from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.rewrites.graph import Graph, Rule, apply_rules, operator_of

# Avoids division of the least integer by -1 in onnxruntime, which crashes the process on x86.


def safe_division(node: onnx.NodeProto, graph: Graph) -> bool:
    """Divide the least integer by 1 where the divisor is -1.

    The quotient is that integer and the remainder 0, as in our code. Other elements are not changed.
    """
    x, divisor = node.input
    dtype = graph.dtype(divisor)
    stored = graph.value(divisor)
    if dtype not in ("int32", "int64") or (stored is not None and not (stored == -1).any()):
        return False  # smaller integers are divided as wider ones
    least = graph.constant(np.array(np.iinfo(dtype).min, dtype))
    minus_one, two = (graph.constant(np.array(value, dtype)) for value in (-1, 2))
    overflows = graph.emit(
        "And", [graph.emit("Equal", [x, least]), graph.emit("Equal", [divisor, minus_one])]
    )
    # -1 + 2 is 1. The operator sets 7 and 8 have no Where.
    number = graph.emit("Cast", [overflows], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[1] = graph.emit("Add", [divisor, graph.emit("Mul", [number, two])])
    graph.emitted.append(copy)
    return True


MOST_BYTES = 1 << 28
"""Largest size in bytes of a Fourier matrix in float64: 4096 points by 4096 frequencies."""


def with_substitutes(
    model: onnx.ModelProto, origin: str, shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
) -> onnx.ModelProto:
    """Return a model with onnxruntime's weak operators replaced; the same object if it has none.

    Nodes inside `If`, `Loop` and `Scan`, and inside a file's own functions, are not replaced.

    Parameters
    ----------
    shapes
        Shapes of inputs that the file leaves open.
    """
    if not any(operator_of(node) in RULES for node in model.graph.node):
        return model
    static = onnx.ModelProto()
    static.CopyFrom(model)
    for value in static.graph.input:
        if value.name in shapes:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shapes[value.name]))
    typed = infer_shapes(static, origin, strict=False)
    judged = apply_rules(typed, {operator: _named(rule) for operator, rule in RULES.items()}, origin)
    return model if judged is typed else judged


def _named(rule: Rule) -> Rule:
    """Return a rule whose nodes get unique names, which onnxruntime requires."""

    def applied(node: onnx.NodeProto, graph: Graph) -> bool:
        if not rule(node, graph):
            return False
        for written in graph.emitted:
            if written.name != node.name or not node.name:
                written.name = graph.free(f"{written.output[0]}/judged")
        return True

    return applied


def _spectrum(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `STFT` as frames times a matrix of cosines and sines, in float64.

    onnxruntime's Fourier transforms of float32 accumulate errors of some 1e-4 of the largest value.
    """
    signal, step, window, length = [*node.input, "", ""][:4]
    shape, stride = graph.shape(signal), graph.value(step)
    given = graph.value(length) if length else None
    if (
        shape is None
        or stride is None
        or (length and given is None)
        or (window and graph.shape(window) is None)
    ):
        return False
    known = graph.shape(window) if window else None
    points = int(given) if given is not None else known[0] if known else 0
    parts = shape[2] if len(shape) == 3 else 1
    results = points // 2 + 1 if attributes_of(node).get("onesided", 1) else points
    if not points or points * parts * results * 2 * 8 > MOST_BYTES:
        return False
    frames = (shape[1] - points) // int(stride) + 1
    places = int(stride) * np.arange(frames)[:, None] + np.arange(points)
    exact = graph.emit("Cast", [signal], to=onnx.TensorProto.DOUBLE)
    columns = graph.reshape(exact, [shape[0], shape[1], parts])
    rows = graph.emit("Gather", [columns, graph.constant(places.astype(np.int64))], axis=1)
    if window:
        weights = graph.emit("Cast", [window], to=onnx.TensorProto.DOUBLE)
        rows = graph.emit("Mul", [rows, graph.reshape(weights, [points, 1])])
    turns = np.outer(np.arange(points), np.arange(results)) % points
    wave = np.exp(-2j * np.pi * turns / points)
    # A real part x gives (x cos, -x sin), an imaginary one i x: (x sin, x cos).
    matrix = np.stack([wave, 1j * wave], 1)[:, :parts]  # point, part, frequency
    flat = np.stack([matrix.real, matrix.imag], -1).reshape(points * parts, results * 2)
    product = graph.emit(
        "MatMul", [graph.reshape(rows, [shape[0], frames, points * parts]), graph.constant(flat)]
    )
    split = graph.reshape(product, [shape[0], frames, results, 2])
    _in_its_type(graph, split, node)
    return True


def _mean_variance(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `MeanVarianceNormalization` in float64: the variance of large means loses its digits."""
    axes = [int(axis) for axis in attributes_of(node).get("axes", (0, 2, 3))]
    exact = graph.emit("Cast", [node.input[0]], to=onnx.TensorProto.DOUBLE)
    apart, variance = _deviations(graph, exact, axes)
    spread = graph.emit("Add", [graph.emit("Sqrt", [variance]), graph.constant(np.float64(1e-9))])
    _in_its_type(graph, graph.emit("Div", [apart, spread]), node)
    return True


def _group_norm(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `GroupNormalization` in float64, for the same reason."""
    x, *parameters = node.input
    shape, attributes = graph.shape(x), attributes_of(node)
    if shape is None:
        return False
    groups, kind = int(attributes["num_groups"]), onnx.TensorProto.DOUBLE
    rows = graph.reshape(graph.emit("Cast", [x], to=kind), [shape[0], groups, -1])
    apart, variance = _deviations(graph, rows, [2])
    epsilon = graph.constant(np.float64(np.float32(attributes.get("epsilon", 1e-5))))
    unit = graph.emit("Div", [apart, graph.emit("Sqrt", [graph.emit("Add", [variance, epsilon])])])
    # Before operator set 21 a scale is one for each group.
    along = [1, -1, 1] if graph.opset < 21 else [1, -1, *[1] * (len(shape) - 2)]
    result = unit if graph.opset < 21 else graph.reshape(unit, shape)
    for operator, name in zip(("Mul", "Add"), parameters, strict=True):
        factor = graph.reshape(graph.emit("Cast", [name], to=kind), along)
        result = graph.emit(operator, [result, factor])
    _in_its_type(graph, graph.reshape(result, shape), node)
    return True


def _deviations(graph: Graph, x: str, axes: Sequence[int]) -> tuple[str, str]:
    """Write each value's deviation from the mean along `axes`, and the mean of the squared deviations."""
    apart = graph.emit("Sub", [x, graph.reduce("ReduceMean", x, axes)])
    return apart, graph.reduce("ReduceMean", graph.emit("Mul", [apart, apart]), axes)


def _swish(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `Swish` in float64: onnxruntime's sigmoid near 0 is off by a tenth and more."""
    exact = graph.emit("Cast", [node.input[0]], to=onnx.TensorProto.DOUBLE)
    factor = graph.constant(np.float64(-np.float32(attributes_of(node).get("alpha", 1.0))))
    power = graph.emit("Exp", [graph.emit("Mul", [exact, factor])])
    below = graph.emit("Add", [power, graph.constant(np.float64(1))])
    _in_its_type(graph, graph.emit("Div", [exact, below]), node)
    return True


def _softmax_of_one(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `QLinearSoftmax` over a single value, which is 1: onnxruntime answers 0."""
    x, _scale, _zero, y_scale, *y_zero = node.input
    shape, attributes = graph.shape(x), attributes_of(node)
    if shape is None:
        return False
    axis = int(attributes.get("axis", -1)) % len(shape)
    summed = shape[axis : axis + 1] if attributes.get("opset", 0) >= 13 else shape[axis:]
    if np.prod(summed) != 1:
        return False
    ones = graph.constant(np.ones(shape, np.float32))
    graph.emit("QuantizeLinear", [ones, y_scale, *y_zero], node.output)
    return True


def _in_its_type(graph: Graph, exact: str, node: onnx.NodeProto) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(graph.dtype(node.input[0])))
    graph.emit("Cast", [exact], node.output, to=kind)


RULES: dict[str, Rule] = {
    "Div": safe_division,
    "GroupNormalization": _group_norm,
    "MeanVarianceNormalization": _mean_variance,
    "Mod": safe_division,
    "STFT": _spectrum,
    "Swish": _swish,
    "com.microsoft.QLinearSoftmax": _softmax_of_one,
}
"""Rules by operator."""
