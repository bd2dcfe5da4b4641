"""Finds the convolutions to quantise, each with the addition and the activation that follow it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx

from toolchain.arrays import Array
from toolchain.models.quantising.powers_of_two.reading import GraphReader, refused
from toolchain.models.walk import attributes_of, node_name

PASSED_ON = frozenset(
    {
        "Clip",
        "Concat",
        "Flatten",
        "Identity",
        "MaxPool",
        "Pad",
        "Relu",
        "Reshape",
        "Slice",
        "Split",
        "Transpose",
    }
)
"""Operators that only move and compare values."""


@dataclass(frozen=True)
class StoredConvolution:
    """A convolution of the graph, whose weights are stored.

    Attributes
    ----------
    name
        Of its node.
    source
        The tensor that it reads.
    weight
        [out, in, height, width], float32.
    bias
        [out], float32.
    """

    name: str
    source: str
    weight: Array
    bias: Array


@dataclass(frozen=True)
class Site(StoredConvolution):
    """A convolution to quantise, with the operations on its sums before they are rounded.

    Attributes
    ----------
    result
        The tensor that it computes, after addition and activation.
    strides, pads
        As in ONNX; pads: before in y and x, then after.
    residual
        The tensor added to the convolution's sums; empty for none.
    low, high
        The range of the activation, as real numbers.
    nodes
        Positions of the nodes that it replaces; it takes the place of the last.
    """

    result: str
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    residual: str
    low: float
    high: float
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Sites:
    """The convolutions to quantise, in the graph's order.

    Attributes
    ----------
    integers
        Convolutions that become integers.
    rounded
        Position -> convolution that stays in floats, with operands rounded to 8 bits.
    left
        Name -> why another convolution or matrix product is not quantised.
    """

    integers: tuple[Site, ...]
    rounded: dict[int, StoredConvolution]
    left: dict[str, str]


def find_sites(model: onnx.ModelProto) -> Sites:
    """Return the convolutions to quantise.

    Values to be rounded must be the same in every program. Else a value on the border between two integers is
    rounded differently, and the difference grows from layer to layer. So quantising begins where values are
    exact, and ends where they no longer are.

    Parameters
    ----------
    model
        A static, folded model with inferred shapes, folded batch norms and explicit pads.
    """
    graph = GraphReader(model)
    exact = {value.name for value in model.graph.input}
    narrow: set[str] = set()  # tensors with so few bits that a sum of two is exact in float32
    behind: set[str] = set()  # tensors computed from a convolution
    cause: dict[str, str] = {}  # inexact tensor -> the operator that made values inexact
    integers: list[int] = []
    rounded: dict[int, StoredConvolution] = {}
    left: dict[str, str] = {}
    for position, node in enumerate(model.graph.node):
        computed = [name for name in node.input if name and name not in graph.stored]
        inexact = [name for name in computed if name not in exact]
        for name in node.output:
            cause[name] = cause[inexact[0]] if inexact else str(node.op_type)
        if any(name in behind for name in computed) or node.op_type == "Conv":
            behind.update(node.output)
        if node.op_type == "Conv":
            reason = refused(node, graph)
            if not reason and inexact:
                reason = f"behind {cause[inexact[0]]}, which programs round differently"
            if reason:
                left[node_name(node)] = reason
                continue
            exact.update(node.output)
            if computed[0] in behind and graph.whole(node):
                integers.append(position)
                narrow.update(node.output)
            else:
                rounded[position] = StoredConvolution(node_name(node), node.input[0], *graph.weights(node))
        elif node.op_type in ("Gemm", "MatMul"):
            left[node_name(node)] = "a product of matrices"
        elif not inexact and node.op_type in PASSED_ON:
            exact.update(node.output)
            if narrow.issuperset(computed):
                narrow.update(node.output)
        elif node.op_type == "Add" and not inexact and len(computed) == 2:
            sites = {graph.nodes[place].output[0] for place in integers}
            if narrow.issuperset(computed) or any(
                name in sites and graph.only_reader(name, "Add", set()) is not None for name in computed
            ):
                exact.update(node.output)
                narrow.update(node.output)
    return Sites(_sites(graph, integers, exact), rounded, left)


def _sites(graph: GraphReader, integers: list[int], exact: set[str]) -> tuple[Site, ...]:
    taken: set[int] = set()
    found = []
    # If the results of two convolutions are added, the one with more products keeps its sums in 32 bits.
    for position in sorted(integers, key=lambda each: -graph.weights(graph.nodes[each])[0][0].size):
        site = _site(graph, position, taken, exact)
        found.append(site)
        taken.update(site.nodes)
    return tuple(sorted(found, key=lambda site: site.nodes[-1]))


def _site(graph: GraphReader, position: int, taken: set[int], exact: set[str]) -> Site:
    node = graph.nodes[position]
    own = attributes_of(node)
    covered, last, residual = [position], node.output[0], ""
    if (sum_ := graph.only_reader(last, "Add", taken)) is not None:
        other = next((name for name in graph.nodes[sum_].input if name != last), "")
        if other in exact and graph.shape(other) == graph.shape(last):
            covered, last, residual = [*covered, sum_], graph.nodes[sum_].output[0], other
    low, high = -math.inf, math.inf
    if (relu := graph.only_reader(last, "Relu", taken)) is not None:
        covered, last, low = [*covered, relu], graph.nodes[relu].output[0], 0.0
    elif (clip := graph.only_reader(last, "Clip", taken)) is not None and (ends := graph.ends(clip)):
        covered, last, (low, high) = [*covered, clip], graph.nodes[clip].output[0], ends
    top, left, bottom, right = own.get("pads", (0, 0, 0, 0))
    down, across = own.get("strides", (1, 1))
    return Site(
        node_name(node), node.input[0], *graph.weights(node), last, (down, across),
        (top, left, bottom, right), residual, low, high, tuple(covered),
    )  # fmt: skip
