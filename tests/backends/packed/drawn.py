"""Small networks of random shapes, as values whose `repr` is the network."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

import onnx
from onnx import helper, shape_inference

from tests.backends.packed.sketch import Shape, Sketch
from tests.backends.packed.windows import Conv
from tests.models.graphs import graph_of, tensor_info


@dataclass(frozen=True)
class Global:
    """A pool over everything: `GlobalAveragePool`, `GlobalMaxPool`."""

    kind: str

    def on(self, net: Sketch, x: str, shape: Shape) -> tuple[str, Shape]:
        return net.op(self.kind, x), (*shape[:2], *[1] * (len(shape) - 2))


@dataclass(frozen=True)
class Pointwise:
    """An operator on every element; see `on` for the kinds."""

    kind: str

    def on(self, net: Sketch, x: str, shape: Shape) -> tuple[str, Shape]:
        ones = (1,) * (len(shape) - 2)
        match self.kind:
            case "clip":
                y = net.op("Clip", x, net.constant(-0.4), net.constant(0.7))
            case "leaky":
                y = net.op("LeakyRelu", x, alpha=0.1)
            case "prelu":
                y = net.op("PRelu", x, net.weight(shape[1], *ones))
            case "silu":
                y = net.op("Mul", x, net.op("Sigmoid", x))
            case "add input":
                y = net.op("Add", x, net.input(shape))
            case "from input":
                y = net.op("Sub", net.input(shape), x)
            case "gate":
                y = net.op("Mul", x, net.op("Sigmoid", net.input((*shape[:2], *ones))))
            case "add channels":
                y = net.op("Add", x, net.weight(1, shape[1], *ones))
            case "times channels":
                y = net.op("Mul", net.weight(shape[1], *ones), x)
            case "add image":
                y = net.op("Add", x, net.weight(*shape[2:]))
            case "times number":
                y = net.op("Mul", x, net.constant(-1.5))
            case "cosine":  # not zero at zero
                y = net.op("Cos", x)
            case "softmax":
                y = net.op("Softmax", x, axis=1)
            case _:
                y = net.op(self.kind, x)
        return y, shape


@dataclass(frozen=True)
class Excite:
    """Squeeze and excite."""

    squeezed: int

    def on(self, net: Sketch, x: str, shape: Shape) -> tuple[str, Shape]:
        g, small = Global("GlobalAveragePool").on(net, x, shape)
        g, small = Conv(self.squeezed).on(net, g, small)
        g, _ = Conv(shape[1]).on(net, net.op("Relu", g), small)
        return net.op("Mul", x, net.op("Sigmoid", g)), shape


@dataclass(frozen=True)
class Branches:
    """Layers that keep the size, side by side; concatenated, or brought to one width and added."""

    each: tuple[tuple[Any, ...], ...]
    add: bool = False

    def on(self, net: Sketch, x: str, shape: Shape) -> tuple[str, Shape]:
        found = []
        for layers in self.each:
            y, theirs = x, shape
            for layer in (*layers, *([Conv(shape[1])] if self.add and layers else [])):
                y, theirs = layer.on(net, y, theirs)
            found.append((y, theirs[1]))
        if self.add:
            total = found[0][0]
            for y, _ in found[1:]:
                total = net.op("Add", total, y)
            return total, shape
        y = net.op("Concat", *[y for y, _ in found], axis=1)
        return y, (shape[0], sum(channels for _, channels in found), *shape[2:])


@dataclass(frozen=True)
class Move:
    """Values that change places; see `on` for the kinds."""

    kind: str
    scale: int = 2  # by which upsampling enlarges each axis

    def on(self, net: Sketch, x: str, shape: Shape) -> tuple[str, Shape]:
        batch, channels, *size = shape
        rank = len(size)
        match self.kind:
            case "shuffle":
                groups = gcd(4, channels)
                y = net.op("Reshape", x, net.constant([batch, groups, channels // groups, *size], "i8"))
                y = net.op("Transpose", y, perm=[0, 2, 1, *range(3, 3 + rank)])
                return net.op("Reshape", y, net.constant(shape, "i8")), shape
            case "slice":
                first = channels // 3
                bounds = [net.constant([each], "i8") for each in (first, channels, 1)]
                return net.op("Slice", x, *bounds), (batch, channels - first, *size)
            case "pad":
                pads = [0, 0, *[1] * rank, 0, 0, *[2] * rank]
                y = net.op("Pad", x, net.constant(pads, "i8"), net.constant(0.5))
                return y, (batch, channels, *[extent + 3 for extent in size])
            case "upsample":
                scales = net.constant([1, 1, *[self.scale] * rank])
                nearest = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
                y = net.op("Resize", x, "", scales, mode="nearest", **nearest)
                return y, (batch, channels, *[self.scale * extent for extent in size])
            case _:  # there and back, with something between
                there = [0, *range(2, 2 + rank), 1]
                back = [0, 1 + rank, *range(1, 1 + rank)]
                y = net.op("Abs", net.op("Transpose", x, perm=there))
                return net.op("Transpose", y, perm=back), shape


@dataclass(frozen=True)
class Head:
    """Flatten, a dense layer, an operator."""

    width: int
    transposed: bool = True
    then: str = "Relu"

    def on(self, net: Sketch, x: str, shape: Shape) -> tuple[str, Shape]:
        wide = prod(shape[1:])
        ends = (self.width, wide) if self.transposed else (wide, self.width)
        inputs = [net.op("Flatten", x), net.weight(*ends, fan_in=wide), net.weight(self.width)]
        y = net.op("Gemm", *inputs, transB=int(self.transposed))
        return net.op(self.then, y), (shape[0], self.width)


@dataclass(frozen=True)
class Gemm:
    """alpha A B + beta C on its own, A the input; `addend`: shape of C."""

    rows: int
    inner: int
    columns: int
    transposes: tuple[bool, bool] = (False, False)
    constant: bool = True
    addend: str = "row"
    alpha: float = 1.0
    then: str = "Identity"

    def draw(self, net: Sketch) -> str:
        a, b = (self.rows, self.inner), (self.inner, self.columns)
        a, b = (a[::-1] if self.transposes[0] else a), (b[::-1] if self.transposes[1] else b)
        inputs = [net.input(a), net.weight(*b, fan_in=self.inner) if self.constant else net.input(b)]
        shapes: dict[str, Shape] = {
            "row": (self.columns,),
            "column": (self.rows, 1),
            "whole": (self.rows, self.columns),
            "number": (1,),
        }
        if self.addend in shapes:
            inputs.append(net.weight(*shapes[self.addend]))
        names = dict(zip(("transA", "transB"), map(int, self.transposes), strict=True))
        return net.op(self.then, net.op("Gemm", *inputs, alpha=self.alpha, beta=0.5, **names))


@dataclass(frozen=True)
class MatMul:
    """A product of stacks of matrices, each with leading dimensions of its own."""

    left: Shape
    right: Shape
    rows: int
    inner: int
    columns: int
    constant: bool = True
    transposed: bool = False
    then: str = "Identity"

    def draw(self, net: Sketch) -> str:
        a = net.input((*self.left, self.rows, self.inner))
        ends = (self.columns, self.inner) if self.transposed else (self.inner, self.columns)
        shape = (*self.right, *ends)
        b = net.weight(*shape, fan_in=self.inner) if self.constant else net.input(shape)
        if self.transposed:
            rank = len(shape)
            b = net.op("Transpose", b, perm=[*range(rank - 2), rank - 1, rank - 2])
        return net.op(self.then, net.op("MatMul", a, b))


@dataclass(frozen=True)
class Network:
    """Layers on one input."""

    shape: Shape
    layers: tuple[Any, ...] = field(default=())

    def draw(self, net: Sketch) -> str:
        x, shape = net.input(self.shape), self.shape
        for layer in self.layers:
            x, shape = layer.on(net, x, shape)
        return x


Drawn = Network | Gemm | MatMul


def merged(networks: Sequence[Drawn], opset: int = 17) -> onnx.ModelProto:
    """Return one network of them all, side by side; the i-th output is the i-th network's."""
    nodes, inputs, outputs, weights = [], [], [], {}
    for index, network in enumerate(networks):
        net = Sketch(f"n{index}.", zlib.crc32(repr(network).encode()))
        last = network.draw(net)
        nodes += [*net.nodes, helper.make_node("Identity", [last], [f"out{index}"])]
        inputs += [tensor_info(name, shape) for name, shape in net.inputs.items()]
        outputs.append(tensor_info(f"out{index}", None))
        weights.update(net.weights)
    graph = graph_of(nodes, inputs, outputs, weights, opset)
    for output in graph.graph.output:
        output.type.tensor_type.ClearField("shape")
    return shape_inference.infer_shapes(graph, strict_mode=True)
