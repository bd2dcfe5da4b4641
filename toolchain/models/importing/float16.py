"""Imports float16 files as float32, since few cores compute in float16 and float32 is at least as exact.

Inputs and outputs keep their type, and weights keep their values. `--dtype float16` computes such a file in
float16 if the board can, as it does any other file.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper, numpy_helper

from toolchain.models.names import Names
from toolchain.models.walk import all_names, all_nodes, nested_nodes, tensors_of

HALF, FULL = TensorProto.FLOAT16, TensorProto.FLOAT
CODES = frozenset({"to", "dtype", "output_dtype", "stash_type"})
"""Attributes that give the type of a result."""


def holds_float16(model: onnx.ModelProto) -> bool:
    """Whether a model has inputs, outputs or stored tensors of float16, or casts to it."""
    values = (*model.graph.input, *model.graph.output)
    if any(value.type.tensor_type.elem_type == HALF for value in values):
        return True
    if any(tensor.data_type == HALF for tensor in tensors_of(model)):
        return True
    bodies = (node for function in model.functions for node in nested_nodes(function.node))
    return any(_is_code(each) for node in (*all_nodes(model.graph), *bodies) for each in node.attribute)


def as_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a static graph without branches with float32 in place of float16; itself if it has none.

    The caller must infer the types of inner tensors again.
    """
    if not holds_float16(model) or any(node.op_type == "BitCast" for node in model.graph.node):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    del graph.value_info[:]
    for tensor in graph.initializer:
        _widen(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if _is_code(attribute):
                attribute.i = FULL
            elif attribute.HasField("t"):
                _widen(attribute.t)
    used = Names(all_names(graph))
    ends = sorted(_halves(graph.input) | _halves(graph.output))
    names = {name: used.free(f"{name}/float32") for name in ends}
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = names.get(name, name)
        for place, name in enumerate(node.output):
            node.output[place] = names.get(name, name)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)

    def cast(source: str, target: str, code: int) -> onnx.NodeProto:
        return helper.make_node("Cast", [source], [target], used.free(f"{target}/cast"), to=code)

    before = [cast(name, names[name], FULL) for name in sorted(_halves(graph.input))]
    after = [cast(names[name], name, HALF) for name in sorted(_halves(graph.output))]
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return copy


def _is_code(attribute: onnx.AttributeProto) -> bool:
    return attribute.name in CODES and attribute.type == onnx.AttributeProto.INT and attribute.i == HALF


def _halves(values: list[onnx.ValueInfoProto]) -> set[str]:
    return {value.name for value in values if value.type.tensor_type.elem_type == HALF}


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == HALF:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float32"), tensor.name))
