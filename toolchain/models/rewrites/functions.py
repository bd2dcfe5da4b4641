"""Inlines operators that ONNX itself defines as functions of others."""

from __future__ import annotations

import onnx
from onnx import defs

from toolchain.models.folding.infer import function_body
from toolchain.models.preparing.modernise import spell_out
from toolchain.models.rewrites.graph import FROM_BEGINNING, Graph

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
    attributes = {name: found.default_value for name, found in _schema(node, graph).attributes.items()}
    attributes |= {attribute.name: attribute for attribute in node.attribute}
    names = {inner: "" for inner in body.input}
    names |= dict(zip(body.input, node.input, strict=False))
    wanted = dict(zip(body.output, node.output, strict=False))
    copied = {inner for inner in wanted if wanted[inner] and inner in body.input}
    for inner in body.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        _rename(copy, names, wanted, graph)
        _fill_in(copy, attributes)
        if node.op_type == "RotaryEmbedding" and copy.op_type == "Gather":
            copy.doc_string = FROM_BEGINNING
        copy.name = ""  # the body's
        graph.emitted.append(copy)
    for inner in copied:  # an output that is an input
        graph.emit("Identity", [names[inner]], [wanted[inner]])
    return True


def _schema(node: onnx.NodeProto, graph: Graph) -> defs.OpSchema:
    return defs.get_schema(node.op_type, graph.opset, node.domain.replace("ai.onnx", ""))


def _body(node: onnx.NodeProto, graph: Graph) -> onnx.FunctionProto | None:
    return function_body(_schema(node, graph), node, [graph.type(name) for name in node.input], graph.opset)


def _rename(node: onnx.NodeProto, names: dict[str, str], wanted: dict[str, str], graph: Graph) -> None:
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
            names[name] = wanted.get(name) or graph.free(name)
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
