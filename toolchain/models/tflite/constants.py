"""Computes what follows from shapes alone, such as the shape that a RESHAPE is given."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import helper

from toolchain.models.tflite.finish import OPSET
from toolchain.models.tflite.graph import OnnxGraph
from toolchain.models.tflite.layout import ChannelOrder
from toolchain.models.tflite.network import TfliteOperator, TfliteTensor

_SMALL = 64
"""Most elements of such a constant."""

_FLAT = 2
"""Most dimensions of one: a shape has one, paddings have two. Windows, which nothing bounds, have more."""


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
