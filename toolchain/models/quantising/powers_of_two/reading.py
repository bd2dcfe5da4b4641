"""Queries of the quantiser about a graph."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.arrays import Array
from toolchain.models.walk import attributes_of


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
        own = attributes_of(convolution)
        return own.get("group", 1) == 1 and all(each == 1 for each in own.get("dilations", ()))

    def only_reader(self, tensor: str, operator: str, taken: set[int]) -> int | None:
        """Return the position of the one node that reads a tensor, if it is of that type and not taken."""
        readers = self._readers.get(tensor, [])
        if tensor in self._outputs or len(readers) != 1 or readers[0] in taken:
            return None
        return readers[0] if self.nodes[readers[0]].op_type == operator else None

    def ends(self, position: int) -> tuple[float, float] | None:
        """Return the range of a Clip; None if a bound is computed."""
        clip = self.nodes[position]
        own = attributes_of(clip)
        ends = [own.get("min", -math.inf), own.get("max", math.inf)]
        for place, name in enumerate(clip.input[1:3]):
            if name and name not in self.stored:
                return None
            if name:
                ends[place] = float(numpy_helper.to_array(self.stored[name]))
        return float(ends[0]), float(ends[1])


def refused(convolution: onnx.NodeProto, graph: GraphReader) -> str:
    """Return why a convolution stays as it is; empty: it need not."""
    if any(name and name not in graph.stored for name in convolution.input[1:]):
        return "its weights are computed"
    if len(graph.stored[convolution.input[1]].dims) != 4:
        return "not of images"
    return ""
