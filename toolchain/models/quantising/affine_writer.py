"""Writes a planned graph in QDQ form: QuantizeLinear and DequantizeLinear around each integer layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

from toolchain.arrays import Array
from toolchain.models.onnx_graph import Names, all_names, attributes_of
from toolchain.models.quantising.affine_plan import ANCHORS, Index, IntegerPlan, IntegerRole, limits
from toolchain.models.quantising.affine_scales import Scale, integer_weights

# Convolutions and dense layers with integer weights.


@dataclass(frozen=True)
class IntegerLayer:
    """A convolution or a dense layer in integers.

    Attributes
    ----------
    weight
        int8, in the node's own shape.
    steps
        float32 [out]: scale of the weights of each output channel.
    bias
        int32 [out]; None without one.
    sums
        float32 [out]: scale of the sums and the bias.
    axis
        Axis of the output channels in `weight`.
    attributes
        The node's attributes.
    """

    weight: Array
    steps: Array
    bias: Array | None
    sums: Array
    axis: int
    attributes: dict[str, Any]


def layer_of(index: Index, node: onnx.NodeProto, source: Scale) -> IntegerLayer:
    """Return the integer form of a node that `refusal` lets through.

    Parameters
    ----------
    source
        Scale of the node's input.
    """
    settings = attributes_of(node)
    weight = index.array(node.input[1])
    axis = {"Conv": 0, "MatMul": 1}.get(node.op_type, 0 if settings.get("transB", 0) else 1)
    has_bias = len(node.input) > 2 and bool(node.input[2])
    bias: Array = np.zeros(weight.shape[axis], np.float32)
    if has_bias:
        bias = bias + np.float32(settings.get("beta", 1.0)) * index.array(node.input[2]).reshape(-1)
    integers = integer_weights(np.float32(settings.get("alpha", 1.0)) * weight, bias, axis, source)
    attributes = {name: value for name, value in settings.items() if name not in ("alpha", "beta")}
    sums = (np.float32(source.step) * integers.steps).astype(np.float32)
    return IntegerLayer(
        integers.weight, integers.steps, integers.bias if has_bias else None, sums, axis, attributes
    )


ROUND, REAL = "QuantizeLinear", "DequantizeLinear"


class Writer:
    """Writes the nodes of a quantised graph.

    A tensor's name is kept for the numbers that its integers stand for; what is rounded to them gets a new
    one. So nodes that compute with floats, and the network's outputs, stay as they are.

    Attributes
    ----------
    integers
        Rounded tensor -> name of its integers.
    """

    def __init__(self, index: Index, plan: IntegerPlan, scales: Mapping[str, Scale]) -> None:
        self._index, self._plan, self._scales = index, plan, scales
        self._names = Names(all_names(index.model.graph))
        self._nodes: list[onnx.NodeProto] = []
        self._stored: list[onnx.TensorProto] = []
        self._parameters: dict[Scale, list[str]] = {}
        self._reals: dict[str, str] = {}
        self.integers: dict[str, str] = {}

    def written(self) -> onnx.ModelProto:
        """Return the quantised graph, without inferred shapes."""
        for value in self._index.model.graph.input:
            if value.name in self._plan.rounded:
                self._quantise(value.name, value.name, real=self._names.free(f"{value.name}.rounded"))
        for at, node in enumerate(self._index.nodes):
            role = self._plan.roles.get(at)
            if role is IntegerRole.LIMIT:
                continue  # `_limit` wrote it, or rounding implies it
            if role is IntegerRole.MOVE or (role is IntegerRole.CONCATENATION and self._has_one_scale(node)):
                self._move(node)
            else:
                self._compute(at, node, role)
        return self._finished()

    def _compute(self, at: int, node: onnx.NodeProto, role: IntegerRole | None) -> None:
        """Write a node between the numbers that integers stand for and the rounding of its results."""
        computing = onnx.NodeProto()
        computing.CopyFrom(node)
        if role is not None:  # others take an input of the network as it is
            computing.input[:] = [self._reals.get(name, name) for name in node.input]
        if role in ANCHORS:
            self._store_integers(computing, node)
        ends = {at: name for at, name in enumerate(node.output) if name}
        if at in self._plan.results:
            ends = {0: self._plan.results[at]}
        rounded = {place: name for place, name in ends.items() if name in self._plan.rounded}
        for place, name in rounded.items():
            computing.output[place] = self._names.free(f"{name}.real")
        self._nodes.append(computing)
        for place, name in rounded.items():
            result = node.output[place]
            source = (
                computing.output[place]
                if name == result
                else self._limit(result, computing.output[place], name)
            )
            self._quantise(source, name, real=name)

    def _limit(self, result: str, source: str, name: str) -> str:
        """Write the Relu or Clip between a node's output and its rounding, unless the rounding implies it."""
        node = self._index.nodes[self._index.readers[result][0]]
        bounds = limits(node, self._index)
        if bounds is not None and self._scales[name].implies(*bounds):
            return source
        limiting = onnx.NodeProto()
        limiting.CopyFrom(node)
        limiting.input[0], limiting.output[0] = source, self._names.free(f"{name}.limited")
        self._nodes.append(limiting)
        return str(limiting.output[0])

    def _store_integers(self, computing: onnx.NodeProto, node: onnx.NodeProto) -> None:
        """Replace the weights and the bias of a node by integers."""
        source = self._scales[node.input[0]]
        layer = layer_of(self._index, node, source)
        del computing.input[1:], computing.attribute[:]
        computing.attribute.extend(
            helper.make_attribute(*attribute) for attribute in layer.attributes.items()
        )
        computing.input.append(self._stored_reals(layer.weight, layer.steps, layer.axis, node.input[1]))
        if layer.bias is not None:
            computing.input.append(self._stored_reals(layer.bias, layer.sums, 0, node.input[2]))

    def _move(self, node: onnx.NodeProto) -> None:
        """Write a node that moves integers."""
        moving = onnx.NodeProto()
        moving.CopyFrom(node)
        moving.input[:] = [self.integers.get(name, name) for name in node.input]
        if node.op_type == "Pad":
            zero, axes = self._scale(self._scales[node.input[0]])[1], moving.input[3:]
            moving.input[:] = [*moving.input[:2], zero, *axes]
        for place, name in enumerate(node.output):
            if name:
                self.integers[name] = moving.output[place] = self._names.free(f"{name}.integers")
        self._nodes.append(moving)
        for name in filter(None, node.output):
            self._dequantise(name, name)

    def _has_one_scale(self, node: onnx.NodeProto) -> bool:
        return len({self._scales[name] for name in (*self._index.active(node), *node.output)}) == 1 and (
            len(self._index.active(node)) == len(node.input)
        )

    def _quantise(self, source: str, name: str, *, real: str) -> None:
        """Write the rounding of `source`, and `real`, the numbers that the integers stand for."""
        self.integers[name] = self._names.free(f"{name}.integers")
        self._node(ROUND, [source, *self._scale(self._scales[name])], self.integers[name])
        self._dequantise(name, real)

    def _dequantise(self, name: str, real: str) -> None:
        self._reals[name] = real
        self._node(REAL, [self.integers[name], *self._scale(self._scales[name])], real)

    def _stored_reals(self, integers: Array, steps: Array, axis: int, like: str) -> str:
        """Store integers with a scale for each channel; return the name of the numbers they stand for."""
        names = [
            self._constant(array, f"{like}.{part}")
            for part, array in (
                ("integers", integers),
                ("scale", steps),
                ("zero", np.zeros(len(steps), integers.dtype)),
            )
        ]
        return self._node(REAL, names, self._names.free(f"{like}.rounded"), axis=axis)

    def _scale(self, scale: Scale) -> list[str]:
        """Return the names of a scale and its zero point, which are stored once."""
        if scale not in self._parameters:
            self._parameters[scale] = [
                self._constant(np.float32(scale.step), "scale"),
                self._constant(np.uint8(scale.zero), "zero"),
            ]
        return self._parameters[scale]

    def _node(self, operator: str, inputs: list[str], output: str, **attributes: int) -> str:
        name = self._names.free(f"{output}.{operator}")
        self._nodes.append(helper.make_node(operator, inputs, [output], name, **attributes))
        return output

    def _constant(self, array: ArrayLike, like: str) -> str:
        name = self._names.free(like)
        self._stored.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def _finished(self) -> onnx.ModelProto:
        result = onnx.ModelProto()
        result.CopyFrom(self._index.model)
        graph = result.graph
        read = {name for node in self._nodes for name in node.input} | self._index.outputs
        kept = [node for node in self._nodes if node.op_type != REAL or node.output[0] in read]
        stored = [tensor for tensor in graph.initializer if tensor.name in read]
        del graph.node[:], graph.value_info[:], graph.initializer[:]
        graph.node.extend(kept)
        graph.initializer.extend([*stored, *self._stored])
        return result
