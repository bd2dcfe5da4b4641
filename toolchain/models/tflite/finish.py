"""Makes a model of the nodes: names of the file, and shapes that are what the file declares."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, shape_inference

from toolchain.errors import UsageError
from toolchain.foreign import first_line, shortened
from toolchain.models.tflite.graph import OnnxGraph
from toolchain.models.tflite.layout import ChannelOrder, arranged
from toolchain.models.tflite.network import TfliteTensor

OPSET, IR_VERSION = 17, 8


def finish(graph: OnnxGraph) -> onnx.ModelProto:
    """Return the model; values have their names in the file, with `.nchw` behind them in that layout.

    Raises
    ------
    UsageError
        A value's shape is not what the file declares, or the operators do not fit together.
    """
    wanted = [graph.output_names[index] for index in graph.network.outputs]
    made = [graph.stored(index) for index in graph.network.outputs]
    computed = {name for node in graph.nodes for name in node.output}
    names: dict[str, str] = {}
    for name, final in zip(made, wanted, strict=True):
        if name in computed and name not in names:
            names[name] = final
        else:  # an input, a constant, or a second name of an output
            graph.nodes.append(helper.make_node("Identity", [name], [final], name=final))
    for (index, layout), name in graph.stored_as.items():
        if name in computed and name not in names:
            names[name] = graph.names.free(_name(graph.tensor(index), layout))
    for node in graph.nodes:
        for ends in (node.input, node.output):
            ends[:] = [names.get(name, name) for name in ends]
    nodes = _needed(graph.nodes, wanted)
    read = {name for node in nodes for name in node.input}
    stored = [tensor for tensor in graph.initializers if tensor.name in read]
    inputs = [_value(graph.stored(index), graph.tensor(index)) for index in graph.network.inputs]
    outputs = [_value(n, graph.tensor(i)) for n, i in zip(wanted, graph.network.outputs, strict=True)]
    typed = [
        helper.make_tensor_value_info(each.name, each.type.tensor_type.elem_type, None) for each in outputs
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "tflite", inputs, typed, stored),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="edge-toolchain",
    )
    _check_shapes(graph, model, names)
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    return model


def _needed(nodes: list[onnx.NodeProto], outputs: list[str]) -> list[onnx.NodeProto]:
    """Return the nodes that outputs depend on."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.output):
            kept.append(node)
            wanted.update(node.input)
    return kept[::-1]


def _name(tensor: TfliteTensor, layout: ChannelOrder) -> str:
    return f"{tensor.name or f'tensor_{tensor.index}'}{'.nchw' if layout is ChannelOrder.FIRST else ''}"


def _value(name: str, tensor: TfliteTensor) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    return helper.make_tensor_value_info(name, kind, tensor.shape)


def _check_shapes(graph: OnnxGraph, model: onnx.ModelProto, names: dict[str, str]) -> None:
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # onnx's errors have no common parent
        raise UsageError(
            f"{graph.origin}: its operators do not fit together: {first_line(error)}", "convert it again"
        ) from error
    types = {
        value.name: value.type.tensor_type for value in (*inferred.graph.value_info, *inferred.graph.output)
    }
    for (index, layout), name in graph.stored_as.items():
        found = types.get(names.get(name, name))
        tensor = graph.tensor(index)
        if found is None or not found.HasField("shape"):
            continue
        declared = arranged(tensor.shape, layout)
        shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in found.shape.dim]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
        if found.elem_type != kind or shape != declared:
            raise UsageError(
                f"{graph.origin}: tensor {index} ({shortened(tensor.name)!r}) is declared as "
                f"{tensor.dtype} {declared}, but computed as {_shown(found.elem_type)} {shape}",
                "convert the network with a fixed shape for each input",
            )


def _shown(kind: int) -> str:
    return str(helper.tensor_dtype_to_np_dtype(kind)) if kind else "nothing"
