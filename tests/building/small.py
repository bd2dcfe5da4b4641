"""Networks of a few nodes, from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from tests.models.graphs import graph_of, tensor_info
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions


def small(folder: Path, nodes: list[onnx.NodeProto], outputs: list[onnx.ValueInfoProto]) -> Model:
    """Return a network of the input x [1, 8]."""
    weights = {"k": np.array([3]), "boxes": np.zeros((1, 8, 4), np.float32), "row": np.array([1, 1, 8])}
    path = folder / "small.onnx"
    onnx.save(graph_of(nodes, [tensor_info("x", (1, 8))], outputs, weights), path)
    return load_model(str(path), ModelOptions())
