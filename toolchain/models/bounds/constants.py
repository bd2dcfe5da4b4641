"""Refuses networks whose constant indices or divisors are out of range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.models.bounds.row import Checked, Divisor
from toolchain.models.rewrites.graph import Graph
from toolchain.models.walk import node_name


def refuse_constant(
    stored: Array, check: Checked | Divisor, extents: tuple[int, ...], node: onnx.NodeProto, graph: Graph
) -> None:
    """Raise UsageError if a constant is out of range."""
    if isinstance(check, Divisor):
        wrong, reason = stored == 0, "divides by it"
    else:
        ends = np.resize(np.array(extents, np.int64), stored.shape or (1,)).reshape(stored.shape)
        begins = 0 * ends if check.negative == "refused" else -ends
        wrong = (ends != 0) & ~((stored >= begins) & (stored < ends))
        reason = f"takes {check.noun} from {begins.min()} to {ends.max() - 1}"
    for place in _first(wrong):
        at = f" at [{', '.join(map(str, place))}]" if place else ""
        raise UsageError(
            f"{graph.origin}: node {node_name(node)!r} ({node.op_type}) {reason}, and its constant "
            f"{node.input[check.place]!r} holds {stored[place]}{at}",
            "export the network again",
        )


def refuse_overflow(divisor: Array | None, x: Array | None, node: onnx.NodeProto, graph: Graph) -> None:
    """Raise UsageError if a constant least integer is divided by a constant -1: it has no reference."""
    if divisor is None or x is None or x.dtype.kind != "i":
        return
    if (x == np.iinfo(x.dtype).min).any() and (divisor == -1).any():
        raise UsageError(
            f"{graph.origin}: node {node_name(node)!r} ({node.op_type}) divides constants, and the quotient "
            f"of {np.iinfo(x.dtype).min} and -1 is no {x.dtype}",
            "export the network again",
        )


def _first(wrong: Array) -> Iterator[tuple[int, ...]]:
    if wrong.any():
        yield tuple(int(place) for place in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
