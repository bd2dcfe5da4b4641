"""Writes norms out that onnxruntime has in the standard domain before, or without, the standard.

Its optimiser makes `LayerNormalization` of operators of sets below 17, and `SimplifiedLayerNormalization` of
any set, and saves them under the standard's name. onnx refuses such files, onnxruntime reads them.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.models.names import Names
from toolchain.models.walk import all_graphs, all_names, attributes_of, opset_of

FIRST_WITH_LAYER_NORM = 17
_AXES_ARE_INPUTS = 18


def write_early_norms(model: onnx.ModelProto) -> None:
    """Replace these norms along the last axis by what they are made of, in place."""
    opset = opset_of(model)
    replaced = {"SimplifiedLayerNormalization"}
    if opset < FIRST_WITH_LAYER_NORM:
        replaced.add("LayerNormalization")
    if not any(node.op_type in replaced for graph in all_graphs(model.graph) for node in graph.node):
        return
    names = Names(all_names(model.graph))
    for graph in all_graphs(model.graph):
        kinds = {tensor.name: tensor.data_type for tensor in graph.initializer}
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            own = attributes_of(node)
            asked = any(node.output[1:])
            if node.op_type not in replaced or node.domain or own.get("axis", -1) != -1 or asked:
                nodes.append(node)
                continue
            kind = kinds.get(node.input[1], onnx.TensorProto.FLOAT)
            nodes += _written_out(node, own.get("epsilon", 1e-5), kind, opset, names)
        del graph.node[:]
        graph.node.extend(nodes)


def _written_out(
    node: onnx.NodeProto, epsilon: float, kind: int, opset: int, names: Names
) -> list[onnx.NodeProto]:
    made: list[onnx.NodeProto] = []

    def emit(operator: str, inputs: list[str], output: str = "", **attributes: object) -> str:
        name = output or names.free(f"{node.output[0]}.{operator.lower()}")
        made.append(helper.make_node(operator, inputs, [name], node.name, **attributes))
        return name

    def constant(value: np.ndarray) -> str:
        return emit("Constant", [], value=numpy_helper.from_array(value))

    def mean(x: str) -> str:
        if opset < _AXES_ARE_INPUTS:
            return emit("ReduceMean", [x], axes=[-1], keepdims=1)
        return emit("ReduceMean", [x, constant(np.array([-1]))], keepdims=1)

    x = node.input[0]
    if node.op_type == "LayerNormalization":
        x = emit("Sub", [x, mean(x)])
    small = constant(np.array(epsilon, helper.tensor_dtype_to_np_dtype(kind)))
    deviation = emit("Sqrt", [emit("Add", [mean(emit("Mul", [x, x])), small])])
    unit = emit("Div", [x, deviation])
    shift = node.input[2] if len(node.input) > 2 else ""
    scaled = emit("Mul", [unit, node.input[1]], "" if shift else node.output[0])
    if shift:
        emit("Add", [scaled, shift], node.output[0])
    return made
