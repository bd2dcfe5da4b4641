"""A network with one operator of each kind, as a user's file; run as a program, it builds it.

    python -m tests.building.network FOLDER

writes the network and what it builds into FOLDER and prints the workloads, and the sums of the files.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from tests.models.graphs import graph_of, tensor_info

SHAPE = (1, 3, 12, 12)
CLASSES = 10


def network(seed: int = 5) -> onnx.ModelProto:
    """Return a residual classifier: input `data` [1,3,12,12], outputs `prob` and `logits` [1,10].

    `twin0` and `twin1` are convolutions of the same shape: one task of weight two.
    """
    random = np.random.default_rng(seed)

    def weight(*shape: int) -> np.ndarray:
        fan_in = int(np.prod(shape[1:])) or 1
        return (random.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)

    weights = {
        "stem.w": weight(8, 3, 3, 3),
        **{f"bn.{name}": np.abs(weight(8)) + 0.5 for name in ("gamma", "beta", "mean", "var")},
        "deep.w": weight(8, 1, 3, 3),
        "deep.b": weight(8),
        "twin0.w": weight(8, 8, 1, 1),
        "twin1.w": weight(8, 8, 1, 1),
        "last.w": weight(8, 8, 1, 1),
        "fc.w": weight(CLASSES, 8),
        "fc.b": weight(CLASSES),
    }
    nodes = [
        helper.make_node("Conv", ["data", "stem.w"], ["s"], strides=[2, 2], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["s", *list(weights)[1:5]], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Conv", ["r", "deep.w", "deep.b"], ["d"], group=8, pads=[1] * 4),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Conv", ["e", "twin0.w"], ["t"]),
        helper.make_node("Conv", ["t", "twin1.w"], ["v"]),
        helper.make_node("Conv", ["v", "last.w"], ["u"]),
        helper.make_node("Add", ["u", "r"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["m"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "fc.w", "fc.b"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["prob"], axis=1),
    ]
    outputs = [tensor_info(name, (1, CLASSES)) for name in ("prob", "logits")]
    return graph_of(nodes, [tensor_info("data", SHAPE)], outputs, weights)


def written(folder: Path) -> Path:
    """Write the network to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "residual.onnx"
    onnx.save(network(), path)
    return path


def main(folder: Path) -> None:
    """Build into `folder` and say what came out."""
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.building.build import build
    from toolchain.building.options import BuildOptions
    from toolchain.models.load import load_model
    from toolchain.models.options import ModelOptions

    model = load_model(str(written(folder)), ModelOptions())
    found: dict[str, object] = {}
    for board, form in (("x86_64", "so"), ("rk3399", "tar")):
        result = build(model, find_target(board), None, folder, BuildOptions(format=form))
        found[board] = {
            "library": result.library_sha256,
            "bundle": result.bundle_sha256,
            "on disk": hashlib.sha256(result.bundle.read_bytes()).hexdigest(),
            "workloads": [decision.task.workload for decision in result.decisions],
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
