"""What onnxruntime computes for a graph as it stands, its optimiser left out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime


def outputs_of(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs, in the order of the graph."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    results: list[np.ndarray] = session.run(None, dict(inputs))
    return results
