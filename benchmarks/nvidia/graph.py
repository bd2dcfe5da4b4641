"""A network as a list of nodes and one run of weights, which a peer builds the same network from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from benchmarks.nvidia.weights import redraw
from toolchain.models.zoo import ZooNetwork
from toolchain.models.zoo.graph_builder import GraphBuilder

SEED = 0
OPERATORS = {
    "Add", "BatchNormalization", "Conv", "Flatten", "Gemm", "GlobalAveragePool", "MaxPool", "Relu", "Softmax",
}  # fmt: skip
"""Operators that peers know (`travel/torch_graph.py`)."""

_INPUT_STEP = 1 / 16


@dataclass(frozen=True)
class Graph:
    """A network as JSON, and the float32 numbers that its tensors are runs of."""

    document: dict[str, Any]
    weights: bytes


def model_of(network: ZooNetwork, batch: int) -> onnx.ModelProto:
    """Return a network of the zoo with weights that travel."""
    builder = GraphBuilder(network.name, (batch, *network.shape[1:]), SEED)
    return redraw(builder.finish(network.define(builder)))


def input_of(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return a seeded input, rounded to a sixteenth: random float32 numbers would not compress."""
    drawn = np.random.default_rng(SEED).standard_normal(shape)
    return (np.round(drawn / _INPUT_STEP) * _INPUT_STEP).astype(np.float32)


def graph_of(model: onnx.ModelProto) -> Graph:
    """Return the nodes of a model, and its weights one after the other.

    Raises
    ------
    ValueError
        It has an operator that peers do not know.
    """
    if unknown := {node.op_type for node in model.graph.node} - OPERATORS:
        raise ValueError(f"{model.graph.name}: peers do not know {', '.join(sorted(unknown))}")
    tensors, pieces, offset = {}, [], 0
    for tensor in model.graph.initializer:
        tensors[tensor.name] = {"offset": offset, "shape": list(tensor.dims)}
        pieces.append(tensor.raw_data)
        offset += math.prod(tensor.dims)
    document = {
        "name": model.graph.name,
        "input": model.graph.input[0].name,
        "output": model.graph.output[0].name,
        "tensors": tensors,
        "nodes": [
            {
                "operator": node.op_type,
                "name": node.output[0],
                "inputs": [name for name in node.input if name not in tensors],
                "tensors": [name for name in node.input if name in tensors],
                "attributes": {each.name: helper.get_attribute_value(each) for each in node.attribute},
            }
            for node in model.graph.node
        ],
    }
    return Graph(document, b"".join(pieces))
