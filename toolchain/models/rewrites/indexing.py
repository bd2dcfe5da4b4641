"""Rewrites operators that read or write values by indices."""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.errors import UsageError
from toolchain.models.onnx_graph import attributes_of, node_name
from toolchain.models.rewrites.graph import Graph

INT32, INT64 = onnx.TensorProto.INT32, onnx.TensorProto.INT64

MOST_PARTS = 64
"""Most parts of one concatenation: its code is a chain of conditions, and 400 overflow Python's stack."""


def one_hot(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `OneHot` of constant depth: compare indices with 0, 1, …; negative ones count from the end."""
    indices, depth, values = node.input
    shape, stored = graph.shape(indices), graph.value(depth)
    if shape is None or stored is None:
        return False
    count = int(np.asarray(stored).reshape(-1)[0])
    axis = attributes_of(node).get("axis", -1) % (len(shape) + 1)
    whole = graph.emit("Cast", [indices], to=INT64)
    negative = graph.emit("Less", [whole, graph.constant(np.int64(0))])
    wrapped = graph.emit("Add", [whole, graph.constant(np.int64(count))])
    index = graph.emit("Where", [negative, wrapped, whole])
    apart = graph.reshape(index, [*shape[:axis], 1, *shape[axis:]])
    places = graph.constant(np.arange(count).reshape([-1, *[1] * (len(shape) - axis)]))
    off, on = (graph.emit("Gather", [values, graph.constant(np.int64(place))], axis=0) for place in (0, 1))
    graph.emit("Where", [graph.emit("Equal", [apart, places]), on, off], node.output)
    return True


def concatenation(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `Concat` without empty parts, and in several steps if it has very many."""
    kept = [name for name in node.input if 0 not in (graph.shape(name) or ())]
    few = len(kept) <= MOST_PARTS
    if (few and len(kept) == len(node.input)) or not kept:
        return False
    attributes = attributes_of(node)
    if not few:
        groups = [kept[begin : begin + MOST_PARTS] for begin in range(0, len(kept), MOST_PARTS)]
        kept = [graph.emit("Concat", group, **attributes) for group in groups]
    graph.emit("Concat", kept, node.output, **attributes)
    return True


def split(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `Split` without empty parts that nothing reads."""
    shapes = {name: graph.shape(name) for name in node.output}
    kept = [name for name in node.output if 0 not in (shapes[name] or ()) or name in graph.readers]
    if len(kept) == len(node.output) or not kept:
        return False
    if len(kept) == 1:
        graph.emit("Identity", node.input[:1], kept)
        return True
    axis = attributes_of(node).get("axis", 0)
    sizes = [(shapes[name] or ())[axis] for name in kept]
    if graph.opset >= 13:
        graph.emit("Split", [node.input[0], graph.constant(np.array(sizes))], kept, axis=axis)
    else:
        graph.emit("Split", node.input[:1], kept, axis=axis, split=sizes)
    return True


def largest(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `TopK` of int16 with int32, since the runtime cannot sort int16."""
    kind = graph.dtype(node.input[0])
    if kind in ("uint16", "uint32", "uint64"):
        raise UsageError(
            f"{graph.origin}: unsupported use of TopK (node {node_name(node)!r}): of {kind}",
            "convert its input to int64",
        )
    if kind != "int16":
        return False
    values = graph.free("topk")
    wide = graph.emit("Cast", node.input[:1], to=INT32)
    graph.emit("TopK", [wide, *node.input[1:]], [values, *node.output[1:]], **attributes_of(node))
    graph.emit("Cast", [values], node.output[:1], to=onnx.TensorProto.INT16)
    return True


def space_to_depth(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `SpaceToDepth` in the mode CRD as a transposition; the importer knows the other mode."""
    attributes, shape = attributes_of(node), graph.shape(node.input[0])
    if shape is None or attributes.get("mode", b"DCR") != b"CRD":
        return False
    batch, channels, height, width = shape
    size = attributes["blocksize"]
    apart = graph.reshape(node.input[0], [batch, channels, height // size, size, width // size, size])
    turned = graph.emit("Transpose", [apart], perm=[0, 1, 3, 5, 2, 4])
    graph.reshape(turned, [batch, channels * size * size, height // size, width // size], node.output)
    return True


def compress(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `Compress` by a constant condition: gather the values where the condition is true."""
    kept = graph.value(node.input[1])
    if kept is None:
        return False
    axis, x = attributes_of(node).get("axis"), node.input[0]
    places = graph.constant(np.flatnonzero(kept).astype(np.int64))
    if axis is None:
        x, axis = graph.reshape(x, [-1]), 0
    graph.emit("Gather", [x, places], node.output, axis=axis)
    return True


def eye_like(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `EyeLike` as a constant, if the shape of its input is known."""
    shape, attributes = graph.shape(node.input[0]), attributes_of(node)
    if shape is None:
        return False
    kind = (
        onnx.helper.tensor_dtype_to_np_dtype(attributes["dtype"])
        if "dtype" in attributes
        else graph.dtype(node.input[0])
    )
    eye = np.eye(shape[0], shape[1], k=attributes.get("k", 0)).astype(kind)
    graph.emit("Identity", [graph.constant(eye)], node.output)
    return True


def determinant(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `Det` of matrices of up to three rows as products and sums of their elements."""
    shape = graph.shape(node.input[0])
    if shape is None or not 1 <= shape[-1] <= 3:
        return False
    size = shape[-1]

    def minor(rows: tuple[int, ...], columns: tuple[int, ...]) -> str:
        cells = [_cell(graph, node.input[0], rows[0], column) for column in columns]
        if len(rows) == 1:
            return cells[0]
        total = ""
        for place, cell in enumerate(cells):
            rest = minor(rows[1:], columns[:place] + columns[place + 1 :])
            term = graph.emit("Mul", [cell, rest])
            total = graph.emit("Sub" if place % 2 else "Add", [total, term]) if total else term
        return total

    graph.emit("Identity", [minor(tuple(range(size)), tuple(range(size)))], node.output)
    return True


def _cell(graph: Graph, x: str, row: int, column: int) -> str:
    line = graph.emit("Gather", [x, graph.constant(np.int64(column))], axis=-1)
    return graph.emit("Gather", [line, graph.constant(np.int64(row))], axis=-1)
