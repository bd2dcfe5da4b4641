"""Weights that travel: drawn from a seed, and repeated in a way that every packing of them keeps.

A library embeds its constants packed, transformed and rounded. To draw them anew where the GPU is would take
the packing code of every algorithm, which needs TVM. So the weights are drawn such that a compressor finds
them again in any packed form: each filter repeats a block of 32 by 32 channels, and each repetition has
a drawn sign. A kernel that mixes up blocks of channels computes something else because of the signs; biases
and running means are drawn for each channel. The values are random float32 numbers, each at an address of its
own, so a GPU moves and multiplies as many bits as with any others.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

BLOCK = 32
"""Channels of the block that a filter repeats, along its outputs and along its inputs."""

_SMALL = 64 * 64  # filters of at most this many values stay as they were drawn

Floats = NDArray[np.float32]


def redraw(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace the filters and scales of a network of the zoo by ones that travel; return the model."""
    tensors = {each.name: each for each in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            _replace(tensors[node.input[1]], repeated(node.input[1], _values(tensors[node.input[1]])))
        elif node.op_type == "BatchNormalization":
            for name in (node.input[1], node.input[4]):  # they scale the filter, and so repeat as it does
                values = _values(tensors[name])
                _replace(tensors[name], np.resize(values[:BLOCK], values.shape))
    return model


def repeated(name: str, drawn: Floats) -> Floats:
    """Return a filter that repeats its first block with drawn signs; each output's weights sum to zero."""
    outputs, inputs, *window = drawn.shape
    if drawn.size <= _SMALL or min(outputs, inputs) <= BLOCK:
        return drawn
    block = drawn[:BLOCK, :BLOCK]
    block = block - block.mean(axis=tuple(range(1, drawn.ndim)), keepdims=True)
    digest = hashlib.sha256(f"signs of {name}".encode()).digest()
    random = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    rows, columns = math.ceil(outputs / BLOCK), math.ceil(inputs / BLOCK)
    signs = random.choice(np.array([-1, 1], np.float32), (rows, columns))
    spread = (
        signs.repeat(BLOCK, 0).repeat(BLOCK, 1).reshape(rows * BLOCK, columns * BLOCK, *[1] * len(window))
    )
    return (np.tile(block, (rows, columns, *[1] * len(window))) * spread)[:outputs, :inputs]


def _values(tensor: onnx.TensorProto) -> Floats:
    return numpy_helper.to_array(tensor)


def _replace(tensor: onnx.TensorProto, values: Floats) -> None:
    tensor.raw_data = values.astype("<f4", copy=False).tobytes()
