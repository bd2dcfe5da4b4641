"""Translates a TensorFlow Lite network to an ONNX graph."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import helper, shape_inference

from toolchain.errors import UsageError
from toolchain.foreign import first_line, shortened
from toolchain.models.reading.network_file import NetworkFile
from toolchain.models.tflite.call import OperatorCall
from toolchain.models.tflite.network import (
    ChannelOrder,
    TfliteNetwork,
    TfliteOperator,
    TfliteTensor,
    arranged,
)
from toolchain.models.tflite.onnx_builder import OnnxGraph
from toolchain.models.tflite.operators.translations import RULES
from toolchain.models.tflite.schema import read_network

# Makes a model of the nodes: names of the file, and shapes that are what the file declares.

OPSET, IR_VERSION = 17, 8


def finish(graph: OnnxGraph) -> onnx.ModelProto:
    """Return the model; values have their names in the file, with `.nchw` behind them in that layout.

    Raises
    ------
    UsageError
        A value's shape is not what the file declares, or the operators do not fit together.
    """
    final_names = [graph.output_names[index] for index in graph.network.outputs]
    stored_outputs = [graph.stored(index) for index in graph.network.outputs]
    computed = {name for node in graph.nodes for name in node.output}
    names: dict[str, str] = {}
    for name, final in zip(stored_outputs, final_names, strict=True):
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
    nodes = _needed(graph.nodes, final_names)
    read = {name for node in nodes for name in node.input}
    stored = [tensor for tensor in graph.initializers if tensor.name in read]
    inputs = [_value(graph.stored(index), graph.tensor(index)) for index in graph.network.inputs]
    outputs = [_value(n, graph.tensor(i)) for n, i in zip(final_names, graph.network.outputs, strict=True)]
    typed = [
        helper.make_tensor_value_info(output.name, output.type.tensor_type.elem_type, None)
        for output in outputs
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
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            kept.append(node)
            needed.update(node.input)
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
        inferred_type = types.get(names.get(name, name))
        tensor = graph.tensor(index)
        if inferred_type is None or not inferred_type.HasField("shape"):
            continue
        declared = arranged(tensor.shape, layout)
        shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in inferred_type.shape.dim]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
        if inferred_type.elem_type != kind or shape != declared:
            raise UsageError(
                f"{graph.origin}: tensor {index} ({shortened(tensor.name)!r}) is declared as "
                f"{tensor.dtype} {declared}, but computed as {_shown(inferred_type.elem_type)} {shape}",
                "convert the network with a fixed shape for each input",
            )


def _shown(kind: int) -> str:
    return str(helper.tensor_dtype_to_np_dtype(kind)) if kind else "nothing"


# Computes what follows from shapes alone, such as the shape that a RESHAPE is given.

_SMALL = 64
"""Most elements of a constant that is computed here."""

_FLAT = 2
"""Most dimensions of such a constant: a shape has one, paddings two. Weights, of any size, have more."""


def evaluate(graph: OnnxGraph, operator: TfliteOperator, before: int) -> None:
    """Turn the results of an operator into constants, if all that it reads are small constant integers.

    Parameters
    ----------
    before
        How many nodes the graph had before the operator was translated.

    Raises
    ------
    ValueError
        Its constants do not fit together, or to the shapes that are declared.
    """
    given = [graph.tensor(index) for index in operator.inputs if index is not None]
    results = [graph.tensor(index) for index in operator.outputs]
    keys = [(tensor.index, ChannelOrder.LAST) for tensor in results]
    if not given or not all(map(_is_small, (*given, *results))):
        return
    if not all(tensor.index in graph.constants for tensor in given) or not graph.stored_as.keys() >= set(
        keys
    ):
        return
    from onnx.reference import ReferenceEvaluator  # half a second that few files need

    nodes = graph.nodes[before:]
    del graph.nodes[before:]
    read = {name for node in nodes for name in node.input}
    outputs = [
        helper.make_tensor_value_info(graph.stored_as.pop(key), onnx.TensorProto.UNDEFINED, None)
        for key in keys
    ]
    part = helper.make_model(
        helper.make_graph(nodes, "constants", [], outputs, [t for t in graph.initializers if t.name in read]),
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    try:
        arrays = ReferenceEvaluator(part).run(None, {})
    except Exception as error:  # the evaluator's and numpy's errors have no common parent
        raise ValueError("its constants do not fit together") from error
    for tensor, array in zip(results, arrays, strict=True):
        graph.constants[tensor.index] = np.asarray(array, tensor.dtype).reshape(tensor.shape)


def _is_small(tensor: TfliteTensor) -> bool:
    is_integer = tensor.dtype in ("int32", "int64") and tensor.quantisation is None
    return is_integer and tensor.rank <= _FLAT and math.prod(tensor.shape) <= _SMALL


_CONTRADICTIONS = (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError)
"""Errors of a rule that meets shapes, types or options which no converter writes."""


def read_file(file: NetworkFile) -> onnx.ModelProto:
    """Return the network of a `.tflite` file as an ONNX graph: the format's reader; see `read_tflite`."""
    return read_tflite(file.data, str(file.path))


def read_tflite(data: bytes, origin: str) -> onnx.ModelProto:
    """Return the network of a `.tflite` file as an ONNX graph, quantised ones in QDQ form.

    Inputs and outputs keep their names, shapes (channels last) and types.

    Raises
    ------
    UsageError
        The file is broken, or holds what cannot be translated.
    ImportError
        The package `tflite` is not installed.
    """
    return convert(read_network(data, origin), origin)


def convert(network: TfliteNetwork, origin: str) -> onnx.ModelProto:
    """Return a network as an ONNX graph; errors are those of `read_tflite`."""
    if not network.inputs or not network.outputs:
        raise UsageError(f"{origin}: not a network: it has no inputs or no outputs", "convert it again")
    _refuse_unknown(network, origin)
    graph = OnnxGraph(network, origin)
    for operator in network.operators:
        _translate(graph, operator)
    return finish(graph)


def _translate(graph: OnnxGraph, operator: TfliteOperator) -> None:
    before = len(graph.nodes)
    try:
        RULES[operator.name](OperatorCall(graph, operator))
        evaluate(graph, operator, before)
    except _CONTRADICTIONS as error:
        why = f": {first_line(error)}" if isinstance(error, ValueError) else ""  # others speak of Python
        raise UsageError(
            f"{graph.origin}: {operator} is broken: its options or tensors contradict each other{why}",
            "convert it again",
        ) from error


def _refuse_unknown(network: TfliteNetwork, origin: str) -> None:
    unknown = sorted({operator.name for operator in network.operators} - RULES.keys())
    if unknown:
        raise UsageError(
            f"{origin}: not supported of TensorFlow Lite: {', '.join(unknown)}",
            "convert the network without them, or the original network to ONNX; "
            "docs/howto/other-peoples-files.md has the table of operators",
        )
