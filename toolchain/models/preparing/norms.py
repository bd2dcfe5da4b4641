"""Folds batch norms into convolutions, and expands layer norms that the file's operator set does not have.

TVM can fold them too, but computes the new weights by compiling a function for each step: 7 of the
9 seconds that importing MobileNet takes.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.models.onnx_graph import Names, all_graphs, all_names, attributes_of, opset_of

# Writes norms out that onnxruntime has in the standard domain before, or without, the standard.
#
# Its optimiser makes `LayerNormalization` of operators of sets below 17, and `SimplifiedLayerNormalization`
# of any set, and saves them under the standard's name. onnx refuses such files, onnxruntime reads them.

FIRST_WITH_LAYER_NORM = 17
_AXES_ARE_INPUTS = 18


def write_early_norms(model: onnx.ModelProto) -> None:
    """Expand layer norms that the operator set lacks into its operators, in place; last axis only."""
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
            attributes = attributes_of(node)
            asked = any(node.output[1:])
            if node.op_type not in replaced or node.domain or attributes.get("axis", -1) != -1 or asked:
                nodes.append(node)
                continue
            kind = kinds.get(node.input[1], onnx.TensorProto.FLOAT)
            nodes += _written_out(node, attributes.get("epsilon", 1e-5), kind, opset, names)
        del graph.node[:]
        graph.node.extend(nodes)


def _written_out(
    node: onnx.NodeProto, epsilon: float, kind: int, opset: int, names: Names
) -> list[onnx.NodeProto]:
    nodes: list[onnx.NodeProto] = []

    def emit(operator: str, inputs: list[str], output: str = "", **attributes: object) -> str:
        name = output or names.free(f"{node.output[0]}.{operator.lower()}")
        nodes.append(helper.make_node(operator, inputs, [name], node.name, **attributes))
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
    return nodes


CONVOLUTIONS = ("Conv", "ConvTranspose")
_EPSILON = 1e-5  # default of the attribute, https://onnx.ai/onnx/operators/onnx__BatchNormalization.html


@np.errstate(all="ignore")  # infinite weights and NaN stay, verifying reports them
def fold_batch_norms(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with every BatchNormalization that follows a constant convolution folded into it.

    What is left (a batch norm elsewhere, in training mode, or of a convolution that others read
    too) stays as it is.
    """
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    readers = Counter(name for node in graph.node for name in node.input)
    readers.update(output.name for output in graph.output)
    producers = {node.output[0]: node for node in graph.node}
    names = Names(all_names(graph))
    folded: dict[str, onnx.NodeProto | None] = {}  # first output of a node -> what replaces it
    new: list[onnx.TensorProto] = []
    for node in graph.node:
        conv = producers.get(node.input[0]) if node.op_type == "BatchNormalization" else None
        if conv is None or conv.op_type not in CONVOLUTIONS or readers[conv.output[0]] > 1:
            continue
        operands = [conv.input[1], *conv.input[2:3], *node.input[1:5]]
        if not all(name in constants for name in operands if name) or _attribute(node, "training_mode", 0):
            continue
        weight, bias = _folded(conv, node, constants)
        replacement = onnx.NodeProto()
        replacement.CopyFrom(conv)
        del replacement.input[1:], replacement.output[:]
        parameters = [names.free(f"{node.output[0]}.{part}") for part in ("weight", "bias")]
        replacement.input.extend(parameters)
        replacement.output.append(node.output[0])
        new += [
            numpy_helper.from_array(array, name)
            for array, name in zip((weight, bias), parameters, strict=True)
        ]
        # The convolution takes the place of its batch norm, after everything it reads.
        folded[conv.output[0]] = None
        folded[node.output[0]] = replacement
    if not folded:
        return model
    return _rebuilt(model, folded, new)


def _folded(
    conv: onnx.NodeProto, norm: onnx.NodeProto, constants: dict[str, onnx.TensorProto]
) -> tuple[np.ndarray, np.ndarray]:
    """Return weight and bias [out] of a convolution with the batch norm folded in."""
    scale, shift, mean, variance = (
        numpy_helper.to_array(constants[name]).astype(np.float64) for name in norm.input[1:5]
    )
    weight = numpy_helper.to_array(constants[conv.input[1]])
    bias = 0.0
    if len(conv.input) > 2 and conv.input[2]:
        bias = numpy_helper.to_array(constants[conv.input[2]]).astype(np.float64)
    factor = scale / np.sqrt(variance + _attribute(norm, "epsilon", _EPSILON))
    if conv.op_type == "Conv":
        scaled = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
    else:  # [in, out/groups, …]: the inputs of a group make its outputs
        groups = int(_attribute(conv, "group", 1))
        per_group = factor.reshape(groups, 1, -1, *[1] * (weight.ndim - 2))
        scaled = (weight.reshape(groups, -1, *weight.shape[1:]) * per_group).reshape(weight.shape)
    return (
        scaled.astype(weight.dtype),
        np.asarray((bias - mean) * factor + shift).astype(weight.dtype),
    )


def _rebuilt(
    model: onnx.ModelProto, folded: dict[str, onnx.NodeProto | None], new: list[onnx.TensorProto]
) -> onnx.ModelProto:
    graph = model.graph
    replaced = [folded.get(node.output[0], node) for node in graph.node]
    nodes = [node for node in replaced if node is not None]
    read = {name for node in nodes for name in node.input} | {output.name for output in graph.output}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    result = onnx.ModelProto()
    result.ir_version, result.producer_name = model.ir_version, model.producer_name
    result.opset_import.extend(model.opset_import)
    result.graph.name = graph.name
    result.graph.node.extend(nodes)
    result.graph.input.extend(graph.input)
    result.graph.output.extend(graph.output)
    result.graph.initializer.extend([*kept, *new])
    return result


def _attribute(node: onnx.NodeProto, name: str, default: float) -> float:
    for attribute in node.attribute:
        if attribute.name == name:
            return float(onnx.helper.get_attribute_value(attribute))
    return default
