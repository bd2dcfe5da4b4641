"""How onnxruntime is asked for the results of a quantised file, so that it computes the integers it means.

A file in QDQ form is computed in integers only with optimisations. Two habits of its optimiser are worked
around: on x86 most operators between int8 activations stay in floats, and processors without VNNI saturate
sums of products. Operators that are integers by themselves need no optimisation, and some of them it breaks.
"""

from __future__ import annotations

from typing import Any

import onnx

from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.rewrites.quantised.groups import GROUPED
from toolchain.models.rewrites.quantised.unsigned import REAL, ROUND, with_unsigned_activations
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
