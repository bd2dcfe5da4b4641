"""Batch norms folded into the convolutions before them, in ONNX and numpy.

TVM can fold them too, but computes the new weights by compiling a function for each step: 7 of the
9 seconds that importing MobileNet takes.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.models.names import Names
from toolchain.models.walk import all_names

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
        wanted = [conv.input[1], *conv.input[2:3], *node.input[1:5]]
        if not all(name in constants for name in wanted if name) or _attribute(node, "training_mode", 0):
            continue
        weight, bias = _folded(conv, node, constants)
        replacement = onnx.NodeProto()
        replacement.CopyFrom(conv)
        del replacement.input[1:], replacement.output[:]
        made = [names.free(f"{node.output[0]}.{part}") for part in ("weight", "bias")]
        replacement.input.extend(made)
        replacement.output.append(node.output[0])
        new += [
            numpy_helper.from_array(array, name) for array, name in zip((weight, bias), made, strict=True)
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
    """Return the weight, in the convolution's own layout, and the bias [out] that do both steps."""
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
