"""Session options that make onnxruntime compute a quantised file in integers.

onnxruntime computes a file in QDQ form in integers only with optimisations. We work around three habits of
its optimiser: on x86 it leaves most operators between int8 activations in floats; on processors without VNNI
its sums of products saturate; and where they must not, it cannot load bytes that two nodes read, such as the
zero points of files from PyTorch, or weights that two nodes share. Integer operators need no optimisation,
which even breaks some of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import onnx

from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.onnx_graph import Names, all_names, all_nodes
from toolchain.models.rewrites.quantised.groups import GROUPED
from toolchain.models.rewrites.quantised.values import (
    REAL,
    ROUND,
    with_unsigned_activations,
    with_unsigned_weights,
)

ROWS = 16
"""Threads for files with DynamicQuantizeLSTM: onnxruntime rounds states with one scale for all rows of a
thread. Boards use one scale per row, as onnxruntime does with a thread for each row."""

_BYTES = frozenset({onnx.TensorProto.INT8, onnx.TensorProto.UINT8})
EXACT_SUMS = "session.x64quantprecision"
EACH_ROUNDING = "session.disable_double_qdq_remover"
PRODUCTS_WITH_STEPS = "session.qdq_matmulnbits_accuracy_level"
_FLOATS = "1"


def ask_for_integers(options: Any, model: onnx.ModelProto) -> onnx.ModelProto:
    """Set the options of a session for a quantised model, and return the model to load."""
    options.add_session_config_entry(EXACT_SUMS, "1")
    options.add_session_config_entry(EACH_ROUNDING, "1")  # else it leaves out the first of two in a row
    options.add_session_config_entry(PRODUCTS_WITH_STEPS, _FLOATS)  # else floats times steps become steps
    if any(node.op_type == "DynamicQuantizeLSTM" for node in all_nodes(model.graph)):
        options.intra_op_num_threads = ROWS
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if has_groups(model):
        return with_own_bytes(with_unsigned_activations(model))
    if any(node.op_type in (ROUND, REAL) for node in all_nodes(model.graph)):
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return with_unsigned_weights(model)


def has_groups(model: onnx.ModelProto) -> bool:
    """Whether the model has float operators between DequantizeLinear and QuantizeLinear."""
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    return ROUND in makers.values() and any(
        node.op_type in GROUPED and makers.get(node.input[0]) == REAL for node in model.graph.node
    )


def rounded_softmaxes(model: onnx.ModelProto) -> set[str]:
    """Return the float32 results of softmaxes between DequantizeLinear and QuantizeLinear.

    The optimiser makes integer operators of them, unless their results are outputs, too. Those have a whole
    number in place of the reciprocal of their scale: with a scale of 1/255.5, each value is 0.2 % off.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    floats = {tensor.name for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT}
    results = set()
    for end in model.graph.node:
        node = makers.get(end.input[0]) if end.op_type == ROUND else None
        begin = makers.get(node.input[0]) if node is not None and node.op_type == "Softmax" else None
        if begin is not None and begin.op_type == REAL and begin.input[1] in floats:
            results.add(str(end.input[0]))
    return results


def with_own_bytes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose QuantizeLinear and DequantizeLinear nodes share no constant bytes.

    Weights that several nodes read, as in a detector's heads, get a DequantizeLinear for each reader.
    """
    stored = {tensor.name: tensor for tensor in model.graph.initializer if tensor.data_type in _BYTES}
    reals = {
        node.output[0]: node for node in model.graph.node if node.op_type == REAL and node.input[0] in stored
    }
    readers = Counter(
        name
        for node in model.graph.node
        for name in node.input
        if name in reals or (name in stored and node.op_type in (ROUND, REAL))
    )
    if max(readers.values(), default=0) < 2:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    names, seen = Names(all_names(copy.graph)), set[str]()
    _read_apart(copy.graph, reals, names)
    for node in copy.graph.node:
        if node.op_type not in (ROUND, REAL):
            continue
        for place, name in enumerate(node.input):
            if name in seen:
                copied = copy.graph.initializer.add()
                copied.CopyFrom(stored[name])
                copied.name = node.input[place] = names.free(f"{name}.own")
            elif name in stored:
                seen.add(str(name))
    return copy


def _read_apart(graph: onnx.GraphProto, reals: Mapping[str, onnx.NodeProto], names: Names) -> None:
    """Give each reader of the result of one of `reals` a DequantizeLinear of its own, in place."""
    seen, nodes = set[str](), list[onnx.NodeProto]()
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in seen:
                dequantising = onnx.NodeProto()
                dequantising.CopyFrom(reals[name])
                dequantising.name = dequantising.output[0] = node.input[place] = names.free(f"{name}.own")
                nodes.append(dequantising)
            elif name in reals:
                seen.add(str(name))
        nodes.append(node)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
