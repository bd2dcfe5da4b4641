"""A static float graph, indexed by tensors."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from toolchain.arrays import Array

FLOAT = TensorProto.FLOAT


class Index:
    """Finds what makes and what reads each tensor of a folded model with inferred shapes.

    Attributes
    ----------
    nodes
        The nodes in topological order; a position is an index into them.
    makers
        Tensor -> position of the node that computes it.
    readers
        Tensor -> positions of the nodes that read it, once for each place.
    outputs
        The outputs of the network.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        self.model = model
        self.nodes = list(graph.node)
        self.makers = {name: at for at, node in enumerate(self.nodes) for name in node.output if name}
        self.readers: dict[str, list[int]] = {}
        for at, node in enumerate(self.nodes):
            for name in node.input:
                self.readers.setdefault(name, []).append(at)
        self.outputs = {value.name for value in graph.output}
        self._types = {
            value.name: value.type.tensor_type for value in (*graph.input, *graph.value_info, *graph.output)
        }

    @cached_property
    def stored(self) -> dict[str, onnx.TensorProto]:
        """The stored tensors by name."""
        return {tensor.name: tensor for tensor in self.model.graph.initializer}

    def array(self, name: str) -> Array:
        """Return a stored tensor."""
        return np.asarray(numpy_helper.to_array(self.stored[name]))

    def active(self, node: onnx.NodeProto) -> list[str]:
        """Return the inputs of a node that are computed or given, without stored ones."""
        return [name for name in node.input if name and name not in self.stored]

    def is_float(self, name: str) -> bool:
        """Whether a tensor is known to be float32."""
        if name in self.stored:
            return bool(self.stored[name].data_type == FLOAT)
        return name in self._types and self._types[name].elem_type == FLOAT

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a computed tensor; empty if it is unknown."""
        if name in self.stored:
            return tuple(self.stored[name].dims)
        if name not in self._types:
            return ()
        return tuple(dim.dim_value for dim in self._types[name].shape.dim)

    def read_once(self, name: str) -> bool:
        """Whether one place of one node reads a tensor, and nothing else."""
        return name not in self.outputs and len(self.readers.get(name, ())) == 1
