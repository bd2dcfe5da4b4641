"""Queries of an ONNX model: its graphs, those inside `If`, `Loop` and `Scan` too, their tensors and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx
from onnx import helper

from toolchain.foreign import printable

# New names for the tensors of a graph.


class Names:
    """The names in use in a graph, from which unused names are derived."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = set(used)
        self._last: dict[str, int] = {}

    def take(self, name: str) -> None:
        """Mark `name` as used."""
        self._used.add(name)

    def free(self, like: str) -> str:
        """Return an unused name, `like` itself if possible, and mark it as used."""
        name = like
        while name in self._used:
            self._last[like] = self._last.get(like, 0) + 1
            name = f"{like}.{self._last[like]}"
        self._used.add(name)
        return name


CONTROL = frozenset({"If", "Loop", "Scan"})
"""Operators that contain graphs."""


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield `graph` and every graph inside its nodes."""
    yield graph
    yield from _inside(graph.node)


def _inside(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    for node in nodes:
        for attribute in node.attribute:
            for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from all_graphs(inner)


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield every node, those of inner graphs included."""
    for inner in all_graphs(graph):
        yield from inner.node


def nodes_of(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield every node of a model: of its graph, and of its own functions."""
    yield from all_nodes(model.graph)
    for function in model.functions:
        yield from nested_nodes(function.node)


def nested_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes, such as those of a function, and the nodes of the graphs inside them."""
    for node in nodes:
        yield node
        for inner in _inside([node]):
            yield from inner.node


def all_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield every stored tensor: initializers and attributes, those of inner graphs included."""
    for inner in all_graphs(graph):
        yield from _of_graph(inner)


def tensors_of(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every stored tensor of a model: of its graph, and of its own functions."""
    yield from all_tensors(model.graph)
    for function in model.functions:
        yield from _of_attributes(function.node)
        for inner in _inside(function.node):
            yield from _of_graph(inner)


def _of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_attributes(graph.node)


def _of_attributes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            stored = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
            for sparse in [*stored, *attribute.sparse_tensors]:
                yield from (sparse.values, sparse.indices)


def input_values(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the true inputs: older opsets list initializers among them too."""
    stored = {tensor.name for tensor in graph.initializer}
    stored |= {tensor.values.name for tensor in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in stored]


def all_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield every name that the graph uses; protobuf gives bytes for one that is not UTF-8."""
    for inner in all_graphs(graph):
        for node in inner.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for value in (*inner.input, *inner.output, *inner.value_info):
            yield value.name
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
        yield from (tensor.name for tensor in inner.initializer)


def node_name(node: onnx.NodeProto) -> str:
    """Return the node's name, or its first output if it has none."""
    return str(node.name or next(iter(node.output), node.op_type))


def called(node: onnx.NodeProto) -> str:
    """Return a node's operator and name, as messages show them."""
    return f"{printable(node.op_type)} (node {printable(repr(node_name(node)))})"


def type_name(type_: onnx.TypeProto) -> str:
    """Return the numpy name of a tensor type's elements; `string`, or `?` if it is unknown."""
    return dtype_of_code(type_.tensor_type.elem_type)


def dtype_of_code(code: int) -> str:
    """Return the numpy name of an element type; `string`, or `?` if it is unknown."""
    if code == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(helper.tensor_dtype_to_np_dtype(code).name)
    except KeyError:  # not a tensor, or a type unknown to onnx
        return "?"


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of the standard operator set that `model` uses."""
    return next((int(o.version) for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes that a node sets, by name."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
