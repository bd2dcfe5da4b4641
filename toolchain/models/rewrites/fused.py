"""Expands the fused operators that onnxruntime's and optimum's optimisers leave in files that they save.

They have the domain `com.microsoft`, and each is a few standard operators in one node. Tests compare the
result with onnxruntime's own kernel of each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from toolchain.errors import UsageError
from toolchain.foreign import printable
from toolchain.models.onnx_graph import attributes_of, node_name
from toolchain.models.rewrites.graph import FROM_BEGINNING, Graph, Rule, input_of, operator_of, output_of

SAVED_WITHOUT = (
    "take the network as it was before an optimiser saved it; or save it without one: in onnxruntime "
    "options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL, in optimum-cli leave out "
    "--optimize"
)
"""Hint for files with operators of `com.microsoft`, which optimisers write."""

_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
}
"""Activations of fused nodes -> the attributes that `activation_params` lists."""

_SQUASHED = 1.702  # the factor of QuickGelu, as its schema says


def unfused_first(node: onnx.NodeProto, graph: Graph, why: str) -> UsageError:
    """Return the error for a fused node with options that this module does not support."""
    what = f"{operator_of(node)} (node {printable(repr(node_name(node)))})"  # with its domain
    return UsageError(f"{graph.origin}: unsupported use of {what}: {why}", SAVED_WITHOUT)


def _number(graph: Graph, value: float, like: str) -> str:
    return graph.constant(np.asarray(value, graph.dtype(like)))


def _activated(node: onnx.NodeProto, graph: Graph, x: str, attributes: dict[str, Any]) -> bool:
    """Write the activation of a fused node."""
    kind, outputs = graph.dtype(node.input[0]), list(node.output)
    if not attributes["activation"]:
        graph.emit("Identity", [x], outputs)
        return True
    name, given = attributes["activation"].decode(), list(attributes["activation_params"])
    if name == "Clip" and len(given) == 2:
        low, high = (graph.constant(np.asarray(value, kind)) for value in given)
        if graph.opset >= 11:
            graph.emit("Clip", [x, low, high], outputs)
        else:
            graph.emit("Clip", [x], outputs, min=given[0], max=given[1])
        return True
    if name not in _ACTIVATIONS:
        raise unfused_first(node, graph, f"the activation {printable(name)}")
    graph.emit(name, [x], outputs, **dict(zip(_ACTIVATIONS[name], given, strict=False)))
    return True


def convolution(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `FusedConv`: a convolution, to which a fourth input is added, and an activation."""
    attributes = attributes_of(node)
    behind = {name: attributes.pop(name, b"") for name in ("activation", "activation_params")}
    z = input_of(node, 3)
    sums = graph.emit("Conv", [name for name in node.input[:3] if name], **attributes)
    if z:
        sums = graph.emit("Add", [sums, z])
    return _activated(node, graph, sums, behind)


def dense(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `FusedGemm`: a product with a bias, and an activation."""
    attributes = attributes_of(node)
    given = [attributes.pop(f"activation_{name}", None) for name in ("alpha", "beta", "gamma")]
    behind = {
        "activation": attributes.pop("activation", b""),
        "activation_params": [value for value in given if value is not None],
    }
    sums = graph.emit("Gemm", list(node.input), **attributes)
    return _activated(node, graph, sums, behind)


def product(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `FusedMatMul`: a product of matrices, transposed as its attributes say, times a number."""
    attributes = attributes_of(node)
    sides = []
    for place, side in enumerate("AB"):
        name = node.input[place]
        shape = graph.shape(name)
        if shape is None:
            raise unfused_first(node, graph, "a shape that is not known")
        order = list(range(len(shape)))
        if len(shape) > 1:
            if attributes.get(f"transBatch{side}"):
                order = [*order[1:-1], 0, order[-1]]
            if attributes.get(f"trans{side}"):
                order[-2:] = order[:-3:-1]
        sides.append(name if order == sorted(order) else graph.emit("Transpose", [name], perm=order))
    alpha = attributes.get("alpha", 1.0)
    result = graph.emit("MatMul", sides, node.output if alpha == 1 else None)
    if alpha != 1:
        graph.emit("Mul", [result, _number(graph, alpha, node.input[0])], node.output)
    return True


def _biased(node: onnx.NodeProto, graph: Graph) -> str:
    return graph.emit("Add", list(node.input[:2])) if input_of(node, 1) else str(node.input[0])


def gelu(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `Gelu` and `BiasGelu`: x * Phi(x), by erf."""
    x = _biased(node, graph)
    like = node.input[0]
    bent = graph.emit("Erf", [graph.emit("Mul", [x, _number(graph, math.sqrt(0.5), like)])])
    half = graph.emit("Mul", [x, _number(graph, 0.5, like)])
    graph.emit("Mul", [half, graph.emit("Add", [bent, _number(graph, 1, like)])], node.output)
    return True


def fast_gelu(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `FastGelu`: x * Phi(x), by the tanh that approximates it."""
    x, like = _biased(node, graph), node.input[0]
    cube = graph.emit("Mul", [graph.emit("Mul", [x, x]), x])
    inner = graph.emit("Add", [x, graph.emit("Mul", [cube, _number(graph, 0.044715, like)])])
    bent = graph.emit("Tanh", [graph.emit("Mul", [inner, _number(graph, math.sqrt(2 / math.pi), like)])])
    half = graph.emit("Mul", [x, _number(graph, 0.5, like)])
    graph.emit("Mul", [half, graph.emit("Add", [bent, _number(graph, 1, like)])], node.output)
    return True


def quick_gelu(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `QuickGelu`: x * sigmoid(alpha * x)."""
    x = node.input[0]
    scaled = graph.emit("Mul", [x, _number(graph, attributes_of(node).get("alpha", _SQUASHED), x)])
    graph.emit("Mul", [x, graph.emit("Sigmoid", [scaled])], node.output)
    return True


def _normalised(
    graph: Graph, x: str, scale: str, shift: str, attributes: dict[str, Any], outputs: list[str], like: str
) -> None:
    """Write a norm along the last axis; outputs may be the result, the mean and 1 / deviation."""
    statistics = [*outputs, "", ""][1:3]
    mean = graph.reduce("ReduceMean", x, [-1], outputs=[statistics[0]] if statistics[0] else None)
    apart = graph.emit("Sub", [x, mean])
    _scaled(graph, apart, scale, shift, attributes, [outputs[0], statistics[1]], like)


def _scaled(
    graph: Graph, x: str, scale: str, shift: str, attributes: dict[str, Any], outputs: list[str], like: str
) -> None:
    """Write x / sqrt(mean of squares + epsilon), times a scale, plus a shift if it has a name."""
    spread = graph.reduce("ReduceMean", graph.emit("Mul", [x, x]), [-1])
    raised = graph.emit("Add", [spread, _number(graph, attributes["epsilon"], like)])
    inverse = graph.emit("Reciprocal", [graph.emit("Sqrt", [raised])], [outputs[1]] if outputs[1] else None)
    unit = graph.emit("Mul", [x, inverse])
    scaled = graph.emit("Mul", [unit, scale], None if shift else outputs[:1])
    if shift:
        graph.emit("Add", [scaled, shift], outputs[:1])


def skip_norm(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `SkipLayerNormalization`: the norm of a sum, which itself may be an output."""
    x, skip, scale, shift, bias = (input_of(node, place) for place in range(5))
    total = _sum(graph, [x, skip, bias], output_of(node, 3))
    attributes = {"epsilon": 1e-12, **attributes_of(node)}
    _normalised(graph, total, scale, shift, attributes, list(node.output[:3]), x)
    return True


def skip_rms_norm(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `SkipSimplifiedLayerNormalization`: a sum divided by the root of its mean square."""
    x, skip, scale, bias = (input_of(node, place) for place in range(4))
    total = _sum(graph, [x, skip, bias], output_of(node, 3))
    attributes = {"epsilon": 1e-12, **attributes_of(node)}
    _scaled(graph, total, scale, "", attributes, [node.output[0], output_of(node, 2)], x)
    return True


def _sum(graph: Graph, names: list[str], output: str) -> str:
    total, *others = (name for name in names if name)
    for place, name in enumerate(others):
        last = place == len(others) - 1
        total = graph.emit("Add", [total, name], [output] if last and output else None)
    return total


def embedding_norm(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `EmbedLayerNormalization`: the norm of the sum of rows of up to three tables."""
    ids, segments, words, places, kinds, scale, shift, mask, where = (input_of(node, i) for i in range(9))
    shape = graph.shape(ids)
    if shape is None:
        raise unfused_first(node, graph, "a shape that is not known")
    count, length = shape
    rows = [_rows(graph, words, ids)]
    if not where:
        where = graph.constant(np.arange(length, dtype=np.int64).reshape(1, length))
    rows.append(_rows(graph, places, where))
    if segments:
        rows.append(_rows(graph, kinds, segments))
    total = _sum(graph, rows, output_of(node, 2))
    attributes = {"epsilon": 1e-12, **attributes_of(node)}
    _normalised(graph, total, scale, shift, attributes, [node.output[0]], words)
    if output_of(node, 1):
        if mask:
            ones = graph.emit("Equal", [mask, graph.constant(np.asarray(1, np.int32))])
            whole = graph.emit("Cast", [ones], to=onnx.TensorProto.INT32)
            graph.reduce("ReduceSum", whole, [1], keep=False, outputs=[node.output[1]])
        else:
            graph.emit("Identity", [graph.constant(np.zeros(count, np.int32))], [node.output[1]])
    return True


def _rows(graph: Graph, table: str, places: str) -> str:
    """Write rows of a table by their indices, none of which may be negative."""
    rows = graph.emit("Gather", [table, places], axis=0)
    graph.emitted[-1].doc_string = FROM_BEGINNING
    return rows


_MICROSOFT: dict[str, Rule] = {
    "BiasGelu": gelu,
    "EmbedLayerNormalization": embedding_norm,
    "FastGelu": fast_gelu,
    "FusedConv": convolution,
    "FusedGemm": dense,
    "FusedMatMul": product,
    "Gelu": gelu,
    "QuickGelu": quick_gelu,
    "SkipLayerNormalization": skip_norm,
    "SkipSimplifiedLayerNormalization": skip_rms_norm,
    "TransposeMatMul": product,
}

RULES: dict[str, Rule] = {f"com.microsoft.{name}": rule for name, rule in _MICROSOFT.items()}
