"""Translates a TensorFlow Lite network to an ONNX graph."""

from __future__ import annotations

import onnx

from toolchain.errors import UsageError
from toolchain.foreign import first_line
from toolchain.models.tflite.call import OperatorCall
from toolchain.models.tflite.constants import evaluate
from toolchain.models.tflite.finish import finish
from toolchain.models.tflite.graph import OnnxGraph
from toolchain.models.tflite.network import TfliteNetwork, TfliteOperator
from toolchain.models.tflite.operators.table import RULES
from toolchain.models.tflite.schema import read_network

_CONTRADICTIONS = (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What a rule raises that meets shapes, types or options which no converter writes."""


def read_tflite(data: bytes, origin: str) -> onnx.ModelProto:
    """Return the network of a `.tflite` file as an ONNX graph, quantised ones in QDQ form.

    Inputs and outputs keep their names, shapes (channels last) and types.

    Raises
    ------
    UsageError
        The file is broken, or holds what cannot be translated.
    MissingError
        The package `tflite` is not installed.
    """
    return convert(read_network(data, origin), origin)


def convert(network: TfliteNetwork, origin: str) -> onnx.ModelProto:
    """Return a network as an ONNX graph; errors as of `read_tflite`."""
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
