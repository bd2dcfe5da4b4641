"""Finds the convolutions to quantise, each with the addition and the activation that follow it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.arrays import Array
from toolchain.models.onnx_graph import attributes_of, node_name

# Queries of the quantiser about a graph.


class GraphReader:
    """A static graph, indexed by the readers of each tensor and by stored tensors."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.nodes = model.graph.node
        self.stored = {tensor.name: tensor for tensor in model.graph.initializer}
        self._outputs = {output.name for output in model.graph.output}
        self._readers: dict[str, list[int]] = {}
        for position, node in enumerate(self.nodes):
            for name in node.input:
                self._readers.setdefault(name, []).append(position)
        self._shapes = {
            value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
            for value in (*model.graph.input, *model.graph.value_info, *model.graph.output)
        }

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a computed tensor; empty if it is unknown."""
        return self._shapes.get(name, ())

    def weights(self, convolution: onnx.NodeProto) -> tuple[Array, Array]:
        """Return the weight and the bias of a convolution that `refused` lets through."""
        weight = np.asarray(numpy_helper.to_array(self.stored[convolution.input[1]]), np.float32)
        bias = np.zeros(len(weight), np.float32)
        if len(convolution.input) > 2 and convolution.input[2]:
            bias = np.asarray(numpy_helper.to_array(self.stored[convolution.input[2]]), np.float32)
        return weight, bias

    def whole(self, convolution: onnx.NodeProto) -> bool:
        """Whether each output of a convolution reads all channels, without groups and dilation."""
        attributes = attributes_of(convolution)
        return attributes.get("group", 1) == 1 and all(
            dilation == 1 for dilation in attributes.get("dilations", ())
        )

    def only_reader(self, tensor: str, operator: str, taken: set[int]) -> int | None:
        """Return the position of the one node that reads a tensor, if it is of that type and not taken."""
        readers = self._readers.get(tensor, [])
        if tensor in self._outputs or len(readers) != 1 or readers[0] in taken:
            return None
        return readers[0] if self.nodes[readers[0]].op_type == operator else None

    def ends(self, position: int) -> tuple[float, float] | None:
        """Return the range of a Clip; None if a bound is computed."""
        clip = self.nodes[position]
        attributes = attributes_of(clip)
        ends = [attributes.get("min", -math.inf), attributes.get("max", math.inf)]
        for place, name in enumerate(clip.input[1:3]):
            if name and name not in self.stored:
                return None
            if name:
                ends[place] = float(numpy_helper.to_array(self.stored[name]))
        return float(ends[0]), float(ends[1])


def refused(convolution: onnx.NodeProto, graph: GraphReader) -> str:
    """Return why a convolution is not quantised; empty if it can be."""
    if any(name and name not in graph.stored for name in convolution.input[1:]):
        return "its weights are computed"
    if len(graph.stored[convolution.input[1]].dims) != 4:
        return "not of images"
    return ""


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
"""Operators that only move or compare values, so that exact integers stay exact."""


@dataclass(frozen=True)
class StoredConvolution:
    """A convolution of the graph, whose weights are stored.

    Attributes
    ----------
    name
        The node's name.
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
    sites = []
    # If the results of two convolutions are added, the one with more products keeps its sums in 32 bits.
    for position in sorted(integers, key=lambda node: -graph.weights(graph.nodes[node])[0][0].size):
        site = _site(graph, position, taken, exact)
        sites.append(site)
        taken.update(site.nodes)
    return tuple(sorted(sites, key=lambda site: site.nodes[-1]))


def _site(graph: GraphReader, position: int, taken: set[int], exact: set[str]) -> Site:
    node = graph.nodes[position]
    attributes = attributes_of(node)
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
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
    down, across = attributes.get("strides", (1, 1))
    return Site(
        node_name(node), node.input[0], *graph.weights(node), last, (down, across),
        (top, left, bottom, right), residual, low, high, tuple(covered),
    )  # fmt: skip
