"""Rewrites norms along an axis, and batch norms that use or return the statistics of their input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs

from toolchain.errors import UsageError
from toolchain.models.folding.walk import function_body
from toolchain.models.onnx_graph import attributes_of, node_name
from toolchain.models.preparing.modernise import spell_out
from toolchain.models.preparing.norms import CONVOLUTIONS
from toolchain.models.rewrites.graph import FROM_BEGINNING, Graph

# Inlines operators that ONNX itself defines as functions of others.

DEFINED = (
    "Attention",
    "BlackmanWindow",
    "CausalConvWithState",
    "Celu",
    "CenterCropPad",
    "HammingWindow",
    "HannWindow",
    "LinearAttention",
    "NegativeLogLikelihoodLoss",
    "RotaryEmbedding",
    "SoftmaxCrossEntropyLoss",
    "SwiGLU",
    "Swish",
)
"""Operators for which the importer has no better converter."""


def with_its_body(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write the body of the definition in the graph's operator set."""
    body = _body(node, graph)
    if body is None:
        return False
    attributes = {
        name: attribute.default_value for name, attribute in _schema(node, graph).attributes.items()
    }
    attributes |= {attribute.name: attribute for attribute in node.attribute}
    names = {inner: "" for inner in body.input}
    names |= dict(zip(body.input, node.input, strict=False))
    results = dict(zip(body.output, node.output, strict=False))
    copied = {inner for inner in results if results[inner] and inner in body.input}
    for inner in body.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        _rename(copy, names, results, graph)
        _fill_in(copy, attributes)
        if node.op_type == "RotaryEmbedding" and copy.op_type == "Gather":
            copy.doc_string = FROM_BEGINNING
        copy.name = ""  # the body's
        graph.emitted.append(copy)
    for inner in copied:  # an output that is an input
        graph.emit("Identity", [names[inner]], [results[inner]])
    return True


def _schema(node: onnx.NodeProto, graph: Graph) -> defs.OpSchema:
    return defs.get_schema(node.op_type, graph.opset, node.domain.replace("ai.onnx", ""))


def _body(node: onnx.NodeProto, graph: Graph) -> onnx.FunctionProto | None:
    return function_body(_schema(node, graph), node, [graph.type(name) for name in node.input], graph.opset)


def _rename(node: onnx.NodeProto, names: dict[str, str], results: dict[str, str], graph: Graph) -> None:
    """Rename the tensors of a body's node, and of its inner graphs, to names of the graph."""
    for place, name in enumerate(node.input):
        node.input[place] = names.get(name, name)
    for attribute in node.attribute:
        for branch in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            inside = dict(names)
            for value in (*branch.input, *branch.initializer):
                inside[value.name] = value.name = graph.free(value.name)
            for inner in branch.node:
                _rename(inner, inside, {}, graph)
            for output in branch.output:
                output.name = inside[output.name]
    for place, name in enumerate(node.output):
        if name:
            names[name] = results.get(name) or graph.free(name)
            node.output[place] = names[name]


def _fill_in(node: onnx.NodeProto, attributes: dict[str, onnx.AttributeProto]) -> None:
    """Replace references to the operator's attributes by their values; drop those without a value."""
    kept = []
    for attribute in node.attribute:
        for branch in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            for inner in branch.node:
                _fill_in(inner, attributes)
        if not attribute.ref_attr_name:
            kept.append(attribute)
            continue
        value = attributes.get(attribute.ref_attr_name)
        if value is not None and value.type != onnx.AttributeProto.UNDEFINED:
            copy = onnx.AttributeProto()
            copy.CopyFrom(value)
            copy.name = attribute.name
            kept.append(copy)
    del node.attribute[:]
    node.attribute.extend(kept)
    if node.op_type == "Constant":
        spell_out(node)


def lp_normalisation(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `LpNormalization`: divide the input by its norm along an axis; zeros if the norm is zero."""
    attributes = attributes_of(node)
    x = node.input[0]
    norm = graph.reduce(
        "ReduceL1" if attributes.get("p", 2) == 1 else "ReduceL2", x, [attributes.get("axis", -1)]
    )
    zero, one = (graph.constant(np.asarray(value, graph.dtype(x))) for value in (0, 1))
    safe = graph.emit("Where", [graph.emit("Equal", [norm, zero]), one, norm])
    graph.emit("Div", [x, safe], node.output)
    return True


def lp_pool(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `LpPool`: compute the p-th root of a window's sum of p-th powers."""
    attributes = attributes_of(node)
    if attributes.get("ceil_mode") and _cut_off(attributes, graph.shape(node.input[0])):
        raise UsageError(
            f"{graph.origin}: unsupported use of LpPool (node {node_name(node)!r}): ceil_mode, where the "
            "last window does not fit",
            "pad its input by as much as that window is too long",
        )
    x, p = node.input[0], attributes.pop("p", 2)
    kind = graph.dtype(x)
    powers = graph.emit("Abs", [x])
    if p != 1:
        powers = graph.emit("Pow", [powers, graph.constant(np.asarray(p, kind))])
    mean = graph.emit("AveragePool", [powers], count_include_pad=1, **attributes)
    count = graph.constant(np.asarray(np.prod(attributes["kernel_shape"]), kind))
    total = graph.emit("Mul", [mean, count], node.output if p == 1 else None)
    if p != 1:
        graph.emit("Pow", [total, graph.constant(np.asarray(1 / p, kind))], node.output)
    return True


def _cut_off(attributes: Mapping[str, Any], shape: Sequence[int] | None) -> bool:
    """Whether a pool's last window exceeds the input: TVM's mean then divides by too few values."""
    if shape is None:
        return True
    kernel = attributes["kernel_shape"]
    ones, pads = [1] * len(kernel), attributes.get("pads", [0] * 2 * len(kernel))
    for axis, (taps, step) in enumerate(zip(kernel, attributes.get("strides", ones), strict=True)):
        padded = shape[2 + axis] + pads[axis] + pads[axis + len(kernel)]
        if (padded - (taps - 1) * attributes.get("dilations", ones)[axis] - 1) % step:
            return True
    return False


def mean_variance_normalisation(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `MeanVarianceNormalization` by the mean of squared deviations.

    ONNX defines the variance as a difference of two means, of which float32 leaves nothing where the mean is
    large: the root of a negative number.
    """
    x = node.input[0]
    axes = [int(axis) for axis in attributes_of(node).get("axes", (0, 2, 3))]
    near = graph.emit("Sub", [x, graph.reduce("ReduceMean", x, axes)])
    # A mean of large values is rounded: what it is off by is the mean of the deviations from it.
    apart = graph.emit("Sub", [near, graph.reduce("ReduceMean", near, axes)])
    variance = graph.reduce("ReduceMean", graph.emit("Mul", [apart, apart]), axes)
    least = graph.constant(np.asarray(1e-9, graph.dtype(x)))
    spread = graph.emit("Add", [graph.emit("Sqrt", [variance]), least])
    graph.emit("Div", [apart, spread], node.output)
    return True


def layer_norm_with_statistics(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `LayerNormalization` by its definition if the network reads mean or deviation, too."""
    asked = any(name in graph.readers for name in node.output[1:] if name)
    return asked and with_its_body(node, graph)


def rms_norm_of_all(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `RMSNormalization` over all axes by its definition: TVM's own fails if no axis is left."""
    shape = graph.shape(node.input[0])
    axis = attributes_of(node).get("axis", -1)
    return shape is not None and axis in (0, -len(shape)) and with_its_body(node, graph)


def batch_norm(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `BatchNormalization` as operations on elements.

    With `training_mode` it uses the statistics of its input. Otherwise it becomes a product and a sum with
    constants; but after a convolution it stays, to be folded into that.
    """
    attributes = attributes_of(node)
    if attributes.get("training_mode"):
        return _by_own_statistics(node, graph)
    shape = graph.shape(node.input[0])
    stored = [graph.value(name) for name in node.input[1:5]]
    behind = graph.makers.get(node.input[0], "") in CONVOLUTIONS
    if behind or shape is None or any(value is None for value in stored):
        return False
    scale, shift, mean, variance = (np.asarray(value, np.float64) for value in stored)
    factor = scale / np.sqrt(variance + attributes.get("epsilon", 1e-5))
    along, kind = (-1, *[1] * (len(shape) - 2)), graph.dtype(node.input[0])
    steps = [numbers.reshape(along).astype(kind) for numbers in (factor, shift - mean * factor)]
    scaled = graph.emit("Mul", [node.input[0], graph.constant(steps[0])])
    graph.emit("Add", [scaled, graph.constant(steps[1])], node.output[:1])
    return True


def _by_own_statistics(node: onnx.NodeProto, graph: Graph) -> bool:
    attributes = attributes_of(node)
    x, scale, shift, mean, variance = node.input
    shape = graph.shape(x)
    if shape is None:
        return False
    axes = [0, *range(2, len(shape))]
    along = (1, -1, *[1] * (len(shape) - 2))
    kind = graph.dtype(x)
    middle = graph.reduce("ReduceMean", x, axes)
    apart = graph.emit("Sub", [x, middle])
    spread = graph.reduce("ReduceMean", graph.emit("Mul", [apart, apart]), axes)
    epsilon = graph.constant(np.asarray(attributes.get("epsilon", 1e-5), kind))
    unit = graph.emit("Div", [apart, graph.emit("Sqrt", [graph.emit("Add", [spread, epsilon])])])
    scaled = graph.emit("Mul", [unit, graph.reshape(scale, along)])
    graph.emit("Add", [scaled, graph.reshape(shift, along)], node.output[:1])
    momentum = attributes.get("momentum", 0.9)
    for name, before, now in zip(node.output[1:], (mean, variance), (middle, spread), strict=False):
        if name:
            kind = graph.dtype(before)
            old = graph.emit("Mul", [before, graph.constant(np.asarray(momentum, kind))])
            new = graph.emit(
                "Mul", [graph.reshape(now, [-1]), graph.constant(np.asarray(1 - momentum, kind))]
            )
            graph.emit("Add", [old, new], [name])
    return True
