"""The graph as rewrite rules see it, with methods that write the replacement of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.arrays import Array
from toolchain.models.onnx_graph import Names, node_name, opset_of
from toolchain.models.preparing.tensor_types import dtype_of

FROM_BEGINNING = "its indices do not count from the end"
"""Doc string of a node that replaces an operator without negative indices."""


class Graph:
    """A graph with static inputs whose nodes are being replaced.

    Parameters
    ----------
    model
        The model with inferred shapes, not changed.
    origin
        Name of the source, for messages.
    """

    def __init__(self, model: onnx.ModelProto, origin: str) -> None:
        graph = model.graph
        self.origin = origin
        self.opset = opset_of(model)
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._values: dict[str, tuple[tuple[int, ...] | None, str]] = {}
        self._types: dict[str, onnx.TypeProto] = {}
        for value in (*graph.input, *graph.value_info, *graph.output):
            self._types[value.name] = value.type
            self._values[value.name] = (_static_shape(value), dtype_of(value))
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self._stored[node.output[0]] = node.attribute[0].t
        outputs = (name for node in graph.node for name in node.output)
        self._names = Names([*self._values, *self._stored, *outputs])
        self.makers = {name: str(node.op_type) for node in graph.node for name in node.output}
        self.readers: dict[str, int] = {}
        for name in (*(name for node in graph.node for name in node.input), *(o.name for o in graph.output)):
            self.readers[name] = self.readers.get(name, 0) + 1
        self.emitted: list[onnx.NodeProto] = []
        self.added: list[onnx.TensorProto] = []

    def value(self, name: str) -> Array | None:
        """Return the value of a stored tensor or a constant; None for computed or missing tensors."""
        tensor = self._stored.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the static shape of a tensor; None if it is unknown."""
        if name in self._stored:
            return tuple(self._stored[name].dims)
        return self._values.get(name, (None, "?"))[0]

    def dtype(self, name: str) -> str:
        """Return the numpy name of a tensor's type; `?` if it is unknown."""
        if name in self._stored:
            return str(helper.tensor_dtype_to_np_dtype(self._stored[name].data_type).name)
        return self._values[name][1] if name in self._values else "?"

    def type(self, name: str) -> onnx.TypeProto:
        """Return the type of a tensor; an empty one if it is unknown."""
        if name in self._stored:
            return helper.make_tensor_type_proto(self._stored[name].data_type, self._stored[name].dims)
        return self._types.get(name, onnx.TypeProto())

    def constant(self, array: Any, like: str = "constant") -> str:
        """Store an array in the graph; return its name, made from `like`."""
        tensor = numpy_helper.from_array(np.asarray(array), self.free(like))
        self.added.append(tensor)
        self._stored[tensor.name] = tensor
        return str(tensor.name)

    def emit(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[str] | None = None, **attributes: Any
    ) -> str:
        """Write a node in place of the one that is rewritten; return the name of its first output.

        Parameters
        ----------
        outputs
            Their names, for those of the replaced node; None: one new name.
        attributes
            None leaves one out.
        """
        names: list[str] = list(outputs) if outputs is not None else [self.free(operator.lower())]
        set_ones = {name: value for name, value in attributes.items() if value is not None}
        self.emitted.append(helper.make_node(operator, list(inputs), names, **set_ones))
        return names[0]

    def reshape(self, x: str, shape: Sequence[int], outputs: Sequence[str] | None = None) -> str:
        """Write a Reshape to a constant shape; return the name of its output."""
        return self.emit("Reshape", [x, self.constant(np.asarray(shape, np.int64))], outputs)

    def reduce(
        self,
        operator: str,
        x: str,
        axes: Sequence[int],
        *,
        keep: bool = True,
        outputs: Sequence[str] | None = None,
    ) -> str:
        """Write a reduction along `axes`, as the graph's operator set spells it."""
        if self.opset >= (13 if operator == "ReduceSum" else 18):
            along = self.constant(np.asarray(axes, np.int64))
            return self.emit(operator, [x, along], outputs, keepdims=int(keep))
        return self.emit(operator, [x], outputs, axes=list(axes), keepdims=int(keep))

    def pad(self, x: str, ends: Sequence[int], value: Array, outputs: Sequence[str] | None = None) -> str:
        """Write a Pad with a constant value; `ends`: all beginnings, then all ends."""
        if self.opset < 11:
            return self.emit("Pad", [x], outputs, pads=list(ends), value=float(value))
        pads = self.constant(np.asarray(ends, np.int64))
        return self.emit("Pad", [x, pads, self.constant(value)], outputs)

    def slice(
        self,
        x: str,
        starts: Sequence[int],
        stops: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> str:
        """Write a Slice; steps need operator set 10."""
        parts = [starts, stops, list(axes), steps if steps is not None else [1] * len(list(axes))]
        if self.opset < 10:
            begin, end, along = ([int(number) for number in part] for part in parts[:3])
            return self.emit("Slice", [x], outputs, starts=begin, ends=end, axes=along)
        return self.emit(
            "Slice", [x, *(self.constant(np.asarray(part, np.int64)) for part in parts)], outputs
        )

    def free(self, like: str) -> str:
        """Return an unused name made from `like`, and mark it as used."""
        return self._names.free(like)


def _static_shape(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """Return the shape if all of it is known; 0 is a valid extent here."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or any(not dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    return tuple(dim.dim_value for dim in tensor.shape.dim)


# Writes the replacement of a node and returns True; or returns False to keep the node.
# Raises UsageError that names the node if it is used in a way that cannot be compiled.
Rule = Callable[[onnx.NodeProto, Graph], bool]


def input_of(node: onnx.NodeProto, place: int) -> str:
    """Return the name of an input; empty if it is left out."""
    return str(node.input[place]) if place < len(node.input) else ""


def output_of(node: onnx.NodeProto, place: int) -> str:
    """Return the name of an output; empty if it is left out."""
    return str(node.output[place]) if place < len(node.output) else ""


def operator_of(node: onnx.NodeProto) -> str:
    """Return a node's operator type, prefixed by its domain unless that is the standard one."""
    return str(node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}")


def apply_rules(model: onnx.ModelProto, rules: dict[str, Rule], origin: str) -> onnx.ModelProto:
    """Apply `rules` to the nodes of `model`; return the same object if no rule replaces a node.

    Parameters
    ----------
    model
        The model with inferred shapes; the caller must infer the shapes of the result again.
    rules
        Rules by operator, as named by `operator_of`.
    """
    graph = Graph(model, origin)
    nodes: list[onnx.NodeProto] = []
    replaced = False
    for node in model.graph.node:
        rule = rules.get(operator_of(node))
        graph.emitted = []
        if rule is not None and rule(node, graph):
            for written in graph.emitted:
                written.name = written.name or node_name(node)  # which messages are about
            nodes += graph.emitted
            replaced = True
        else:
            nodes.append(node)
    if not replaced:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    copy.graph.initializer.extend(graph.added)
    return copy
