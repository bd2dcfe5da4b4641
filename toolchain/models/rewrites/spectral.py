"""Rewrites Fourier transforms as products with a matrix of sines and cosines."""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.models.rewrites.graph import Graph
from toolchain.models.walk import attributes_of, node_name

MOST_BYTES = 1 << 26
"""Largest size of one matrix. A transform of 2048 real values to 1025 complex ones takes 16 MiB."""


def fourier_transform(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `DFT` along one axis as a product of matrices; the last axis has real and imaginary part."""
    x = node.input[0]
    shape, own = graph.shape(x), attributes_of(node)
    length = graph.value(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    if shape is None or (length is None and len(node.input) > 1 and node.input[1]):
        return False
    if graph.opset < 20:
        axis = own.get("axis", 1)
    elif len(node.input) > 2 and node.input[2]:
        stored = graph.value(node.input[2])
        if stored is None:
            return False
        axis = int(stored)
    else:
        axis = -2
    axis %= len(shape)
    given, parts = shape[axis], shape[-1]
    inverse, onesided = bool(own.get("inverse")), bool(own.get("onesided"))
    folded = inverse and onesided  # from half a spectrum to real values
    points = int(length) if length is not None else (2 * (given - 1) if folded else given)
    _check_size(node, graph, given * parts * points * 2)
    matrix = _inverse_of_half(given, points) if folded else _matrix(given, points, parts, inverse, onesided)
    results, values = matrix.shape[2:]
    # The axis before the last one, then both as one: a row of the product.
    order = [*(i for i in range(len(shape) - 1) if i != axis), axis, len(shape) - 1]
    there = graph.emit("Transpose", [x], perm=order)
    outer = [shape[i] for i in order[:-2]]
    rows = graph.reshape(there, [*outer, given * parts])
    weight = graph.constant(matrix.reshape(given * parts, results * values).astype(graph.dtype(x)))
    product = graph.emit("MatMul", [rows, weight])
    back = graph.reshape(product, [*outer, results, values])
    graph.emit("Transpose", [back], node.output, perm=list(np.argsort(order)))
    return True


def short_time_transform(node: onnx.NodeProto, graph: Graph) -> bool:
    """Rewrite `STFT` of [batch, n, 1 or 2] as a convolution whose stride is the step between frames."""
    signal, step, window, length = [*node.input, "", ""][:4]
    shape, stride = graph.shape(signal), graph.value(step)
    if shape is None or stride is None or (length and graph.value(length) is None):
        return False
    if length:
        points = int(np.asarray(graph.value(length)))
    elif window and (known := graph.shape(window)):
        points = known[0]
    else:
        return False
    parts = shape[2] if len(shape) == 3 else 1
    onesided = bool(attributes_of(node).get("onesided", 1))
    _check_size(node, graph, points * parts * points * 2)
    matrix = _matrix(points, points, parts, False, onesided)  # [n, parts, k, 2]
    results = matrix.shape[2]
    kernel = matrix.transpose(3, 2, 1, 0).reshape(2 * results, parts, points)
    weight = graph.constant(kernel.astype(graph.dtype(signal)))
    if window:
        stored = graph.value(window)
        weight = (
            graph.emit("Mul", [weight, window])
            if stored is None
            else graph.constant((kernel * stored).astype(graph.dtype(signal)))
        )
    rows = graph.emit("Transpose", [graph.reshape(signal, [shape[0], shape[1], parts])], perm=[0, 2, 1])
    spectrum = graph.emit("Conv", [rows, weight], strides=[int(stride)], kernel_shape=[points])
    frames = (shape[1] - points) // int(stride) + 1
    split = graph.reshape(spectrum, [shape[0], 2, results, frames])
    graph.emit("Transpose", [split], node.output, perm=[0, 3, 2, 1])
    return True


def _check_size(node: onnx.NodeProto, graph: Graph, elements: int) -> None:
    if elements * 4 > MOST_BYTES:
        raise UsageError(
            f"{graph.origin}: unsupported use of {node.op_type} (node {node_name(node)!r}): "
            f"its matrix would have {elements * 4 >> 20} MiB",
            "compute the spectrum before the network, or with fewer points",
        )


def _matrix(given: int, points: int, parts: int, inverse: bool, onesided: bool) -> Array:
    """Return [n, part, k, part]: the weight of each value in each result; 0 beyond `points`."""
    results = points // 2 + 1 if onesided else points
    angle = 2 * np.pi * np.outer(np.arange(given), np.arange(results)) % (2 * np.pi * points) / points
    cosine, sine = np.cos(angle), np.sin(angle) * (-1 if inverse else 1)
    found = np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], 1)[:, :parts]
    found[points:] = 0
    return found / points if inverse else found


def _inverse_of_half(given: int, points: int) -> Array:
    """Return [k, part, n, 1]: the real values of half a spectrum, whose other half is its conjugate."""
    used = points // 2 + 1
    angle = 2 * np.pi * np.outer(np.arange(given), np.arange(points)) / points
    twice = np.where((np.arange(given) == 0) | (2 * np.arange(given) == points), 1.0, 2.0)[:, None]
    found = np.stack([np.cos(angle) * twice, -np.sin(angle) * twice], 1)[..., None]
    found[used:] = 0
    return found / points
