"""The rows of the bounds table: which inputs of an operator are checked, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import onnx

from toolchain.models.rewrites.graph import Graph
from toolchain.models.walk import attributes_of

Extents = Callable[[onnx.NodeProto, Graph], Sequence[int]]
"""Returns the exclusive upper bounds of a node's values; LookupError for unknown shapes."""

Negative = Literal["refused", "from the end", "taken"]


@dataclass(frozen=True)
class Checked:
    """A bounds check of the values of one input while the network computes.

    Attributes
    ----------
    place
        Index of the input.
    noun
        What the values are, for messages.
    extents
        Exclusive upper bounds of the last axis' columns, or of all values; 0 for no bound.
    negative
        How negative values are treated: `taken` accepts them down to minus the extent.
    kinds
        Types of values to check, as numpy's kind letters.
    """

    place: int
    noun: str
    extents: Extents
    negative: Negative = "refused"
    kinds: str = "i"


@dataclass(frozen=True)
class Divisor:
    """A check that the integers of one input are not 0."""

    place: int = 1


@dataclass(frozen=True)
class BoundsRow:
    """How an operator treats values out of range.

    Attributes
    ----------
    checks
        The checks of its inputs.
    fixed
        Indices of inputs that must be constants; a network that computes them is refused at import.
    otherwise
        What happens with out-of-range values that are not refused.
    """

    checks: tuple[Checked | Divisor, ...] = ()
    fixed: tuple[int, ...] = ()
    otherwise: str = ""


def shape_of(name: str, graph: Graph) -> tuple[int, ...]:
    """Return the shape of a tensor; raise LookupError if it is not known."""
    shape = graph.shape(name)
    if shape is None:
        raise LookupError(name)
    return shape


def along(table: int, axis: str = "axis", default: int = 0) -> Extents:
    """Return a function that gives the extent of input `table` along the axis that an attribute names."""

    def extents(node: onnx.NodeProto, graph: Graph) -> list[int]:
        shape = shape_of(node.input[table], graph)
        return [shape[attributes_of(node).get(axis, default)]]

    return extents


def rows_of(table: int) -> Extents:
    """Return a function that gives the first extent of input `table`."""
    return lambda node, graph: [shape_of(node.input[table], graph)[0]]


def coordinates(node: onnx.NodeProto, graph: Graph) -> list[int]:
    """Return the extents that bound the columns of GatherND's and ScatterND's indices."""
    data, indices = (shape_of(name, graph) for name in node.input[:2])
    first = attributes_of(node).get("batch_dims", 0)
    return list(data[first : first + indices[-1]])


def lengths(axis: str | None = None) -> Extents:
    """Return a function that gives one more than input 0's extent along an attribute's axis or the first."""

    def extents(node: onnx.NodeProto, graph: Graph) -> list[int]:
        time = attributes_of(node).get(axis, 0) if axis else attributes_of(node).get("layout", 0)
        return [shape_of(node.input[0], graph)[time] + 1]

    return extents
