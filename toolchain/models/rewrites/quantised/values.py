"""Converts quantised values to integer-valued floats and back, with the rounding of onnxruntime's kernels.

Sums of products of such floats are exact in float32 below 2 ** 24, whatever their order. That is why two
programs agree on them to the last bit, which no two programs do on sums of scaled floats.
"""

from __future__ import annotations

import numpy as np
import onnx

from toolchain.models.rewrites.graph import Graph

FLOAT = onnx.TensorProto.FLOAT


def as_float(graph: Graph, name: str) -> str:
    """Write a cast to float32; return the name of its output."""
    stored = graph.value(name)
    if stored is not None:
        return graph.constant(stored.astype(np.float32), f"{name}.float")
    return name if graph.dtype(name) == "float32" else graph.emit("Cast", [name], to=FLOAT)


def centred(graph: Graph, name: str, zero: str, along: tuple[int, ...] | None = None) -> str:
    """Write integers minus their zero point, in float32.

    Parameters
    ----------
    zero
        Name of the zero point; empty: it is 0.
    along
        The shape that a zero point for each channel gets.
    """
    values, zeros = graph.value(name), graph.value(zero) if zero else np.float32(0)
    shaped = zeros
    if zeros is not None and np.ndim(zeros) == 1 and along:
        shaped = np.reshape(zeros, along)
    if values is not None and shaped is not None:
        return graph.constant(values.astype(np.float32) - np.asarray(shaped, np.float32), f"{name}.float")
    real = as_float(graph, name)
    if zeros is not None and not np.any(zeros):
        return real
    offset = as_float(graph, zero)
    if along and len(graph.shape(zero) or ()) == 1:
        offset = graph.reshape(offset, along)
    return graph.emit("Sub", [real, offset])


def real(graph: Graph, name: str, scale: str, zero: str) -> str:
    """Write the numbers that quantised values represent."""
    return graph.emit("DequantizeLinear", [each for each in (name, scale, zero) if each])


def rounded(graph: Graph, steps: str, zero: str, outputs: list[str]) -> None:
    """Write steps as the nearest integer plus the zero point, clipped to the zero point's type."""
    graph.emit("QuantizeLinear", [steps, graph.constant(np.float32(1)), zero], outputs)


def requantised(graph: Graph, sums: str, factor: str, zero: str, outputs: list[str]) -> None:
    """Write exact sums times a factor, rounded once: onnxruntime's `f32(sum) * f32(xs * ws / ys)`."""
    rounded(graph, graph.emit("Mul", [sums, factor]), zero, outputs)


def apart(graph: Graph, product: str) -> str:
    """Write an operation that keeps a product from being fused with a sum, without changing any result.

    Compilers fuse a product and a sum into one instruction, which rounds once instead of twice.
    """
    return graph.emit("Max", [product, graph.constant(np.float32(-(2**31)))])


def zero_of(graph: Graph, zero: str) -> str:
    """Return the name of a zero point, which may be left out: 0 of uint8, then."""
    return zero or graph.constant(np.uint8(0), "zero")
