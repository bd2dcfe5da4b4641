"""Describes a model, whether it can be built or not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import onnx
from onnx import TensorProto

from toolchain.errors import UsageError
from toolchain.models.folding.evaluate import FEW_BITS
from toolchain.models.folding.finish import COUNTING
from toolchain.models.folding.fold import SPECIAL, fold
from toolchain.models.folding.folded import Folded
from toolchain.models.importing.importer import inputs_to_freeze, unsupported_operators, ways_to_cut
from toolchain.models.load import load_model
from toolchain.models.onnx_graph import all_nodes, all_tensors, input_values, node_name, opset_of
from toolchain.models.options import ModelOptions
from toolchain.models.preparing.prepare import prepare, read_by
from toolchain.models.preparing.tensor_types import Shape, dimensions, dtype_of, open_inputs, shapes_to_give
from toolchain.models.reading.source import is_zoo, read_source
from toolchain.models.recurrent.recurrence import GATES

# Separates problems of a graph with open shapes that fixed shapes may solve from those they cannot.

Unsupported = dict[str, list[onnx.NodeProto]]

_SHAPES = frozenset({"Shape", "Size"})


def without_undecided(
    folded: Folded, unsupported: Unsupported
) -> tuple[Folded, Unsupported, list[onnx.NodeProto]]:
    """Return the problems that remain whatever the open shapes are, and the nodes that depend on the shapes.

    Nodes computed from shapes alone are folded away once the shapes are given; lists of tensors, loops and
    branches may be.

    Parameters
    ----------
    folded
        The folded graph with open shapes, and its problems.
    unsupported
        Nodes that cannot be imported, by operator; those inside other nodes are returned unchanged.
    """
    graph = folded.model.graph
    data = _depends_on_data(graph)
    certain = [
        problem
        for problem in folded.problems
        if problem.node.op_type in COUNTING and read_by(problem.node) & data
    ]
    undecided = [problem.node for problem in folded.problems if problem not in certain]
    outermost = {name for node in graph.node for name in node.output}
    left: Unsupported = {}
    for operator, nodes in unsupported.items():
        for node in nodes:
            if outermost.isdisjoint(node.output) or (operator not in SPECIAL and read_by(node) & data):
                left.setdefault(operator, []).append(node)
            else:
                undecided.append(node)
    return Folded(folded.model, certain), left, undecided


def _depends_on_data(graph: onnx.GraphProto) -> set[str]:
    """Return the names of tensors whose values depend on the values of inputs, not only on their shapes."""
    data = {value.name for value in input_values(graph)}
    for node in graph.node:
        if node.op_type not in _SHAPES and read_by(node) & data:
            data.update(name for name in node.output if name)
    return data


# Counts the parameters and multiply-accumulates of a network.

WEIGHT_TYPES = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.DOUBLE,
        TensorProto.INT8,
        TensorProto.UINT8,
        *FEW_BITS,
    }
)
"""Element types of weights; wider integers are shapes, axes and indices."""

_COUNTED: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose", "Gemm", "MatMul", "MatMulInteger"), (0, 1)),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), (0, 3)),
    **dict.fromkeys([str(cell) for cell in GATES], (0, 1)),
}
"""Indices of the data and weight inputs, by operator."""


def count_parameters(model: onnx.ModelProto) -> int:
    """Count the learnt parameters, as published numbers do: without running statistics of batch norms."""
    batch_norms = (node for node in all_nodes(model.graph) if node.op_type == "BatchNormalization")
    statistics = {name for node in batch_norms for name in node.input[3:5]}
    return sum(
        math.prod(tensor.dims)
        for tensor in all_tensors(model.graph)
        if tensor.data_type in WEIGHT_TYPES and tensor.name not in statistics
    )


def count_macs(model: onnx.ModelProto) -> int | None:
    """Count the multiply-accumulates of convolutions, matrix products and recurrent layers.

    Parameters
    ----------
    model
        A folded model: with inferred shapes, and with decided branches and loops written flat.

    Returns
    -------
    int or None
        None if a shape that matters or the trip count of a loop is unknown.
    """
    graph = model.graph
    shapes: dict[str, Shape | None] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes.setdefault(value.name, dimensions(value))
    total = 0
    for node in graph.node:
        if any(inner.op_type in _COUNTED for inner in _inside(node)):
            return None
        count = _node_macs(node, shapes) if node.op_type in _COUNTED else 0
        if count is None:
            return None
        total += count
    return total


def _inside(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            yield from all_nodes(graph)


def _node_macs(node: onnx.NodeProto, shapes: Mapping[str, Shape | None]) -> int | None:
    left, right = (_static(shapes.get(node.input[index])) for index in _COUNTED[node.op_type])
    out = _static(shapes.get(next(filter(None, node.output))))
    if left is None or right is None or out is None:
        return None
    if node.op_type in GATES:  # weights [directions, gates by hidden, inputs]
        directions, rows, inputs = right
        hidden = rows // GATES[node.op_type]
        return math.prod(left[:2]) * directions * rows * (inputs + hidden)
    if node.op_type.endswith("ConvTranspose"):  # weight [in, out / groups, kernel…]: every input element
        return math.prod(left) * math.prod(right[1:])
    if "Conv" in node.op_type:  # weight [out, in / groups, kernel…]: every output element
        return math.prod(out) * math.prod(right[1:])
    transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
    return math.prod(out) * (left[0] if transposed else left[-1])


def _static(shape: Shape | None) -> tuple[int, ...] | None:
    extents = tuple(extent for extent in shape or () if isinstance(extent, int))
    return extents if shape is not None and len(extents) == len(shape) else None


def inspect_model(source: str, options: ModelOptions) -> dict[str, Any]:
    """Describe a model; open shapes and unsupported operators are shown, not refused.

    Returns
    -------
    dict
        For JSON: name, source, sha256, opset, inputs and outputs (open dimensions by name, shape null
        where the rank is unknown), operators (type -> count), unsupported ([{op, nodes}]), data_dependent
        ([{op, node, reason}]: nodes whose result cannot be compiled because it depends on the data), cut
        (tensors for `--outputs`, before what cannot be compiled), freeze (inputs for `--input-value` that
        decide what the first of these nodes does), open (arguments for `--shape`, D for a number),
        undecided ([{op, node}]: nodes that can be compiled or not as these shapes are), refusal (message and
        hint of the error that `build` would end with; null: inspecting finds none), parameters, macs and
        flops (two per multiply-accumulate of convolutions, products and recurrent layers; null where shapes
        are open).

    Raises
    ------
    UsageError
        The source cannot be read, or the options contradict it.
    """
    network = read_source(source, options)
    _, model, frozen = prepare(network, options, partly=True)
    folded = fold(model, network.origin, frozen, strict=False)
    macs = count_macs(folded.model)
    inputs = input_values(folded.model.graph)
    unknown = open_inputs(inputs)
    undecided: list[onnx.NodeProto] = []
    unsupported = unsupported_operators(folded.model, inside=True)
    if unknown:
        folded, unsupported, undecided = without_undecided(folded, unsupported)
    return {
        "name": network.name,
        "source": network.origin,
        "sha256": network.sha256,
        "opset": opset_of(model),
        "inputs": _describe(inputs),
        "outputs": _describe(folded.model.graph.output),
        "operators": dict(Counter(node.op_type for node in all_nodes(model.graph)).most_common()),
        "unsupported": [
            {"op": operator, "nodes": [node_name(node) for node in nodes]}
            for operator, nodes in unsupported.items()
        ],
        "data_dependent": [
            {"op": problem.node.op_type, "node": node_name(problem.node), "reason": problem.reason}
            for problem in folded.problems
        ],
        "freeze": inputs_to_freeze(folded),
        "open": shapes_to_give(unknown),
        "undecided": [{"op": node.op_type, "node": node_name(node)} for node in undecided],
        "cut": ways_to_cut(folded, model),
        "refusal": None if unknown or is_zoo(source) else _refusal(source, options),
        "parameters": count_parameters(model),
        "macs": macs,
        "flops": None if macs is None else 2 * macs,
    }


def _refusal(source: str, options: ModelOptions) -> dict[str, str] | None:
    """Return the error that loading the network in floats ends with."""
    try:
        load_model(source, replace(options, quantizer="", calibration={}))
    except UsageError as error:
        return {"message": error.message, "hint": error.hint}
    return None


def _describe(values: Iterable[onnx.ValueInfoProto]) -> list[dict[str, Any]]:
    described = []
    for value in values:
        shape = dimensions(value)
        described.append(
            {"name": value.name, "shape": None if shape is None else list(shape), "dtype": dtype_of(value)}
        )
    return described
