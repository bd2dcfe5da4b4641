"""How onnxruntime is asked for the results of a quantised file, so that it computes the integers it means.

A file in QDQ form is computed in integers only with optimisations. Two habits of its optimiser are worked
around: on x86 most operators between int8 activations stay in floats, and processors without VNNI saturate
sums of products. Operators that are integers by themselves need no optimisation, and some of them it breaks.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.rewrites.quantised.groups import GROUPED, REAL, ROUND
from toolchain.models.walk import all_nodes

ROWS = 16
"""Threads for files with DynamicQuantizeLSTM, whose states are rounded by one scale for all rows of a thread.
Boards round every row by its own, as onnxruntime does with a thread for each."""

EXACT_SUMS = "session.x64quantprecision"


def ask_for_integers(options: Any, model: onnx.ModelProto) -> onnx.ModelProto:
    """Set the options of a session for a model with integers, and return the model to hand over."""
    options.add_session_config_entry(EXACT_SUMS, "1")
    if any(node.op_type == "DynamicQuantizeLSTM" for node in all_nodes(model.graph)):
        options.intra_op_num_threads = ROWS
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if has_groups(model):
        return with_unsigned_activations(model)
    if any(node.op_type in (ROUND, REAL) for node in all_nodes(model.graph)):
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return model


def has_groups(model: onnx.ModelProto) -> bool:
    """Tell whether operators on floats stand between DequantizeLinear and QuantizeLinear."""
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    return ROUND in makers.values() and any(
        node.op_type in GROUPED and makers.get(node.input[0]) == REAL for node in model.graph.node
    )


def with_unsigned_activations(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with activations of int8 as uint8, and their zero points 128 higher.

    No number that they stand for changes.
    """
    zeros = {each.name: each for each in model.graph.initializer if each.data_type == onnx.TensorProto.INT8}
    moved = _moved(model.graph, zeros.keys())
    if not moved:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    known = [value for value in copy.graph.value_info if value.name not in moved]
    del copy.graph.value_info[:]
    copy.graph.value_info.extend(known)
    taken = {name for node in copy.graph.node for name in (*node.input, *node.output)}
    made: dict[str, str] = {}
    for node in copy.graph.node:
        ends = {ROUND: node.output[:1], REAL: node.input[:1]}.get(node.op_type, [])
        if moved.isdisjoint(ends):
            continue
        old = node.input[2]
        if old not in made:
            made[old] = f"{old}.unsigned"
            while made[old] in taken:
                made[old] += "_"
            shifted = numpy_helper.to_array(zeros[old]).astype(np.int16) + 128
            copy.graph.initializer.append(numpy_helper.from_array(shifted.astype(np.uint8), made[old]))
        node.input[2] = made[old]
    return copy


def _moved(graph: onnx.GraphProto, zeros: Set[str]) -> set[str]:
    """Return the int8 activations that nothing but DequantizeLinear reads, zero points being constants."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    outputs = {value.name for value in graph.output}
    found = set()
    for node in graph.node:
        if node.op_type != ROUND or node.output[0] in outputs:
            continue
        behind = readers.get(node.output[0], [])
        constant = all(len(each.input) > 2 and each.input[2] in zeros for each in (node, *behind))
        if constant and all(each.op_type == REAL for each in behind):
            found.add(str(node.output[0]))
    return found
