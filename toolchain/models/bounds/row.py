"""What is known of an operator whose values decide an address, an extent or a division."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import onnx

from toolchain.models.rewrites.graph import Graph
from toolchain.models.walk import attributes_of

Extents = Callable[[onnx.NodeProto, Graph], Sequence[int]]
"""From a node and its graph to what the values must be below; LookupError: a shape is not known."""

Negative = Literal["refused", "from the end", "taken"]


@dataclass(frozen=True)
class Checked:
    """Values of one input that are refused while the network computes.

    Attributes
    ----------
    place
        Of the input.
    noun
        What they are, for messages.
    extents
        Of the last axis' columns, or of all values; 0: any value will do.
    negative
        What negative values are: `taken` down to minus the extent.
    kinds
        Types of the values, by numpy's letters, that are checked.
    """

    place: int
    noun: str
    extents: Extents
    negative: Negative = "refused"
    kinds: str = "i"


@dataclass(frozen=True)
class Divisor:
    """Integers of one input that are refused where they are 0."""

    place: int = 1


@dataclass(frozen=True)
class Row:
    """An operator, and what becomes of values out of range.

    Attributes
    ----------
    checks
        What is refused, with the input's or the node's name.
    fixed
        Places of inputs that must be constants: a network that computes them is refused when it is imported.
    otherwise
        What becomes of values that are not refused.
    """

    checks: tuple[Checked | Divisor, ...] = ()
    fixed: tuple[int, ...] = ()
    otherwise: str = ""


def shape_of(name: str, graph: Graph) -> tuple[int, ...]:
    """Return the shape of a tensor; LookupError where it is not known."""
    shape = graph.shape(name)
    if shape is None:
        raise LookupError(name)
    return shape


def along(table: int, axis: str = "axis", default: int = 0) -> Extents:
    """Return what gives the extent of input `table` along the axis that an attribute names."""

    def extents(node: onnx.NodeProto, graph: Graph) -> list[int]:
        shape = shape_of(node.input[table], graph)
        return [shape[attributes_of(node).get(axis, default)]]

    return extents


def rows_of(table: int) -> Extents:
    """Return what gives the first extent of input `table`."""
    return lambda node, graph: [shape_of(node.input[table], graph)[0]]


def coordinates(node: onnx.NodeProto, graph: Graph) -> list[int]:
    """Return the extents that the columns of GatherND's and ScatterND's indices count."""
    data, indices = (shape_of(name, graph) for name in node.input[:2])
    first = attributes_of(node).get("batch_dims", 0)
    return list(data[first : first + indices[-1]])


def lengths(axis: str | None = None) -> Extents:
    """Return what gives one more than the steps of input 0, along the axis of an attribute or the first."""

    def extents(node: onnx.NodeProto, graph: Graph) -> list[int]:
        time = attributes_of(node).get(axis, 0) if axis else attributes_of(node).get("layout", 0)
        return [shape_of(node.input[0], graph)[time] + 1]

    return extents
