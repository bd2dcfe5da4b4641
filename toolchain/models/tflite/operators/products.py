"""Products of matrices."""

from __future__ import annotations

import math

from toolchain.models.tflite.call import OperatorCall, Rule
from toolchain.models.tflite.network import TfliteTensor


def dense(call: OperatorCall) -> None:
    """Translate FULLY_CONNECTED; weights are [output, input], all but the input's last dimension are rows."""
    graph, x, weights, bias = call.graph, call.input(0), call.input(1), call.optional(2)
    if call.option("weights_format", 0) != 0:
        raise call.refusal("a layout of weights made for one kind of processor")
    units, depth = weights.shape
    rows = math.prod(x.shape) // depth
    real = graph.real(x.index)
    if x.shape != (rows, depth):
        real = graph.settled(graph.emit("Reshape", [real, graph.integers([rows, depth])], x.name), x)
    constant = weights.index in graph.constants
    inputs = [real, graph.weights(weights.index, (0, 1)) if constant else graph.real(weights.index)]
    if bias is not None:
        inputs.append(graph.bias(bias.index, x, weights))
    made = graph.emit("Gemm", inputs, call.output.name, transB=1)
    if call.output.shape != (rows, units):
        made = graph.settled(made, call.output)
        made = graph.emit("Reshape", [made, graph.integers(call.output.shape)], call.output.name)
    graph.result(call.output.index, made, bounds=call.bounds())


def products(call: OperatorCall) -> None:
    """Translate BATCH_MATMUL."""
    left = _turned(call, call.input(0), turn=bool(call.option("adj_x", False)))
    right = _turned(call, call.input(1), turn=bool(call.option("adj_y", False)))
    call.graph.result(call.output.index, call.graph.emit("MatMul", [left, right], call.output.name))


def _turned(call: OperatorCall, tensor: TfliteTensor, *, turn: bool) -> str:
    graph, order = call.graph, list(range(tensor.rank))
    if turn:
        order[-2:] = order[-1], order[-2]
    if tensor.index in graph.constants:
        return graph.weights(tensor.index, order)
    real = graph.real(tensor.index)
    return graph.settled(graph.emit("Transpose", [real], tensor.name, perm=order), tensor) if turn else real


RULES: dict[str, Rule] = {"BATCH_MATMUL": products, "FULLY_CONNECTED": dense}
