"""A network of six operators, written as a user's file and built by the toolchain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

INPUT = "gpu_0/data_0"
CHANNELS = 8


def network(path: Path, flipped: int | None = None) -> Path:
    """Write convolution, ReLU, pooling, dense, softmax; outputs are the logits and the probabilities.

    `flipped` is an output channel of the convolution whose weights get the other sign.
    """
    random = np.random.default_rng(3)
    conv = random.standard_normal((CHANNELS, 3, 3, 3)).astype(np.float32)
    dense = random.standard_normal((CHANNELS, 10)).astype(np.float32)
    if flipped is not None:
        conv[flipped] *= -1
    nodes = [
        helper.make_node("Conv", [INPUT, "conv_w"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("MatMul", ["flat", "dense_w"], ["logits,1"]),  # a name may hold a comma
        helper.make_node("Softmax", ["logits,1"], ["prob"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 10]) for n in ("logits,1", "prob")],
        [numpy_helper.from_array(conv, "conv_w"), numpy_helper.from_array(dense, "dense_w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def built(board: str, folder: Path, flipped: int | None = None, **options: str) -> Bundle:
    """Build the network for a board or class."""
    model = load_model(str(network(folder / "small.onnx", flipped)), ModelOptions())
    result = build(model, find_target(board), None, folder, BuildOptions(**options))
    return read_bundle(result.bundle)
