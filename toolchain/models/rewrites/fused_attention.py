"""Expands `Attention` and `MultiHeadAttention` of onnxruntime's optimiser (domain `com.microsoft`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import onnx

from toolchain.models.onnx_graph import attributes_of
from toolchain.models.rewrites.fused import unfused_first
from toolchain.models.rewrites.graph import Graph, Rule, input_of, output_of

_MASKED = -10000.0
"""Default number added to masked scores (the operators' schema)."""


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values, each [batch, heads, length, size], and the mask of scores.

    Attributes
    ----------
    new
        Number of queries.
    known
        Number of keys, past ones included.
    mask, bias
        Names of inputs; empty: none.
    like
        An input of the type of all of them.
    """

    query: str
    key: str
    value: str
    batch: int
    new: int
    known: int
    mask: str
    bias: str
    like: str


def attention(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `Attention`: one product makes queries, keys and values of the same input."""
    x, weight, bias, mask, past, added, length = (input_of(node, place) for place in range(7))
    attributes = attributes_of(node)
    shape, wide = graph.shape(x), graph.shape(weight)
    if shape is None or wide is None or length or attributes.get("do_rotary"):
        raise unfused_first(node, graph, "past_sequence_length or do_rotary")
    heads = attributes["num_heads"]
    sizes = list(attributes.get("qkv_hidden_sizes", [wide[1] // 3] * 3))
    joint = graph.emit("MatMul", [x, weight])
    if bias:
        joint = graph.emit("Add", [joint, bias])
    ends = np.cumsum([0, *sizes])
    parts = []
    for begin, end in pairwise(ends):
        part = graph.slice(joint, [int(begin)], [int(end)], [2])
        parts.append(_by_heads(graph, part, shape[:2], heads, int(end - begin)))
    query, key, value = parts
    known = shape[1]
    if past:
        before = graph.shape(past) or (2, shape[0], heads, 0, 0)
        known += before[3]
        if before[3]:
            old = [graph.reshape(graph.slice(past, [i], [i + 1], [0]), before[1:]) for i in (0, 1)]
            key, value = (
                graph.emit("Concat", [first, last], axis=2)
                for first, last in zip(old, (key, value), strict=True)
            )
    if present := output_of(node, 1):
        size = [1, shape[0], heads, known, sizes[1] // heads]
        graph.emit("Concat", [graph.reshape(part, size) for part in (key, value)], [present], axis=0)
    attended = Heads(query, key, value, shape[0], shape[1], known, mask, added, x)
    return _attended(node, graph, attended, attributes, sizes[0] // heads, sizes[2])


def several_heads(node: onnx.NodeProto, graph: Graph) -> bool:
    """Write `MultiHeadAttention`, whose queries, keys and values are inputs of their own."""
    query, key, value, bias, mask, added, past_key, past_value, *more = (
        input_of(node, place) for place in range(10)
    )
    attributes = attributes_of(node)
    shapes = [graph.shape(name) if name else None for name in (query, key, value)]
    q, k, v = shapes
    if q is None or k is None or v is None or len(q) != 3 or len(k) != len(v) or len(k) not in (3, 4):
        raise unfused_first(node, graph, "packed queries, keys or values")
    if any(more) or output_of(node, 3):
        raise unfused_first(node, graph, "past_sequence_length, cache_indirection or the output qk")
    heads = attributes["num_heads"]
    whole = [
        q[2],
        *(
            (shape_of_part[2] if len(shape_of_part) == 3 else heads * shape_of_part[3])
            for shape_of_part in (k, v)
        ),
    ]
    ends = np.cumsum([0, *whole])
    parts = []
    for name, shape, begin, end in zip((query, key, value), (q, k, v), ends, ends[1:], strict=False):
        biased = name
        if bias and len(shape) == 3:
            biased = graph.emit("Add", [name, graph.slice(bias, [int(begin)], [int(end)], [0])])
        split = len(shape) == 3
        parts.append(_by_heads(graph, biased, shape[:2], heads, int(end - begin)) if split else biased)
    query, key, value = parts
    known = k[1] if len(k) == 3 else k[2]
    outputs = [output_of(node, 1), output_of(node, 2)]
    if past_key:
        before = graph.shape(past_key) or (q[0], heads, 0, 0)
        known += before[2]
        if before[2]:
            key, value = (
                graph.emit("Concat", [old, new], axis=2)
                for old, new in ((past_key, key), (past_value, value))
            )
    for part, output in zip((key, value), outputs, strict=True):
        if output:
            graph.emit("Identity", [part], [output])
    attended = Heads(query, key, value, q[0], q[1], known, mask, added, node.input[0])
    return _attended(node, graph, attended, attributes, q[2] // heads, whole[2])


def _by_heads(graph: Graph, x: str, ends: tuple[int, ...], heads: int, width: int) -> str:
    """Return [batch, length, width] as [batch, heads, length, width / heads]."""
    apart = graph.reshape(x, [*ends, heads, width // heads])
    return graph.emit("Transpose", [apart], perm=[0, 2, 1, 3])


def _attended(
    node: onnx.NodeProto, graph: Graph, attended: Heads, attributes: dict[str, Any], size: int, width: int
) -> bool:
    """Write the weighted sums of values."""
    kind = graph.dtype(attended.like)
    scale = attributes.get("scale", 0.0) or 1 / math.sqrt(size)
    turned = graph.emit("Transpose", [attended.key], perm=[0, 1, 3, 2])
    scores = graph.emit("MatMul", [attended.query, turned])
    scores = graph.emit("Mul", [scores, graph.constant(np.asarray(scale, kind))])
    if attended.bias:
        scores = graph.emit("Add", [scores, attended.bias])
    if attended.mask:
        hidden = _hidden(graph, attended)
        if not hidden:
            shape = list(graph.shape(attended.mask) or ())
            raise unfused_first(node, graph, f"a mask {shape} of {graph.dtype(attended.mask)}")
        least, none = (
            graph.constant(np.asarray(number, kind))
            for number in (attributes.get("mask_filter_value", _MASKED), 0)
        )
        scores = graph.emit("Add", [scores, graph.emit("Where", [hidden, least, none])])
    if attributes.get("unidirectional"):
        later = np.triu(np.ones((attended.new, attended.known), bool), attended.known - attended.new + 1)
        added = np.where(later, np.finfo(kind).min, 0).astype(kind)
        scores = graph.emit("Add", [scores, graph.constant(added)])
    shares = graph.emit("Softmax", [scores], axis=-1 if graph.opset >= 13 else 3)
    mixed = graph.emit("MatMul", [shares, attended.value])
    order = graph.emit("Transpose", [mixed], perm=[0, 2, 1, 3])
    graph.reshape(order, [attended.batch, attended.new, width], node.output[:1])
    return True


def _hidden(graph: Graph, attended: Heads) -> str:
    """Return the name of truth values that broadcast to the scores; empty for an unknown form of mask.

    A mask is [batch, keys] or [batch, queries, keys], positive where a key counts; or the numbers of keys
    that count, [batch], behind which may stand the places of the first of them, [2 batch].
    """
    shape = graph.shape(attended.mask)
    if shape is None or graph.dtype(attended.mask) != "int32":
        return ""
    zero = graph.constant(np.asarray(0, np.int32))
    if len(shape) in (2, 3):
        if shape[-1] != attended.known:
            return ""
        middle = [1, 1] if len(shape) == 2 else [1]
        rows = graph.reshape(attended.mask, [shape[0], *middle, *shape[1:]])
        return graph.emit("Not", [graph.emit("Greater", [rows, zero])])
    if len(shape) != 1 or shape[0] not in (attended.batch, 2 * attended.batch):
        return ""
    places = graph.constant(np.arange(attended.known, dtype=np.int32).reshape(1, 1, 1, -1))
    halves = [
        graph.reshape(
            graph.slice(attended.mask, [first], [first + attended.batch], [0]), [attended.batch, 1, 1, 1]
        )
        for first in range(0, shape[0], attended.batch)
    ]
    behind = graph.emit("Not", [graph.emit("Less", [places, halves[0]])])
    if len(halves) == 1:
        return behind
    return graph.emit("Or", [behind, graph.emit("Less", [places, halves[1]])])


RULES: dict[str, Rule] = {
    "com.microsoft.Attention": attention,
    "com.microsoft.MultiHeadAttention": several_heads,
}
