"""edge.check.*: what edge-rt says of values that a network cannot be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.backends.packed.computed import loaded
from tests.models.graphs import graph_of, tensor_info
from tests.runtime import networks
from tests.runtime.conftest import Edge
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

INT32, INT64 = TensorProto.INT32, TensorProto.INT64


def network() -> onnx.ModelProto:
    """Return a network that looks up, places, divides and repeats what it is told to."""
    nodes = [
        helper.make_node("Gather", ["x", "ids"], ["picked"], "embed"),
        helper.make_node("ScatterND", ["x", "places", "new"], ["placed"], "scatter"),
        helper.make_node("Add", ["ids", "ids"], ["twice"], "double"),
        helper.make_node("Gather", ["x", "twice"], ["far"], "far"),
        helper.make_node("Div", ["small", "by"], ["shared"], "share"),
        helper.make_node("MaxRoiPool", ["image", "regions"], ["pooled"], "pool", pooled_shape=[2, 2]),
        helper.make_node("ReverseSequence", ["x", "ends"], ["turned"], "turn", batch_axis=1, time_axis=0),
    ]
    inputs = [
        tensor_info("x", (8, 4)),
        tensor_info("ids", (2, 2), INT32),
        tensor_info("places", (3, 2), INT64),
        tensor_info("new", (3,)),
        tensor_info("small", (3,), TensorProto.INT8),
        tensor_info("by", (), TensorProto.INT8),
        tensor_info("image", (2, 3, 8, 8)),
        tensor_info("regions", (1, 5)),
        tensor_info("ends", (4,), INT64),
    ]
    outputs = [
        tensor_info("picked", (2, 2, 4)),
        tensor_info("placed", (8, 4)),
        tensor_info("far", (2, 2, 4)),
        tensor_info("shared", (3,), TensorProto.INT8),
        tensor_info("pooled", (1, 3, 2, 2)),
        tensor_info("turned", (8, 4)),
    ]
    return graph_of(nodes, inputs, outputs, {})


GOOD = {
    "x": np.arange(32, dtype=np.float32).reshape(8, 4),
    "ids": np.array([[0, -1], [-4, 3]], np.int32),
    "places": np.array([[0, 0], [-8, -1], [7, 3]]),
    "new": np.ones(3, np.float32),
    "small": np.array([-128, 7, -7], np.int8),
    "by": np.array(-1, np.int8),
    "image": np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32),
    "regions": np.array([[1, 0, 0, 3, 3]], np.float32),
    "ends": np.array([8, 0, 1, 2]),
}
EMBED = "and node 'embed' (Gather) takes indices from -8 to 7"
POOL = "and node 'pool' (MaxRoiPool) takes images from 0 to 1"
TURN = "and node 'turn' (ReverseSequence) takes lengths from 0 to 8"
SCATTER = "and node 'scatter' (ScatterND) takes indices from"
BAD = [
    ("ids", (1, 0), 8, f"input 'ids' holds 8 at [1, 0], {EMBED}"),
    ("ids", (0, 1), -9, f"input 'ids' holds -9 at [0, 1], {EMBED}"),
    ("ids", (0, 0), 2**31 - 1, f"input 'ids' holds 2147483647 at [0, 0], {EMBED}"),
    (
        "ids",
        (0, 0),
        6,
        "'twice', which the network computes, holds 12 at [0, 0], and node 'far'",
    ),
    ("places", (2, 0), 8, f"input 'places' holds 8 at [2, 0], {SCATTER} -8 to 7"),
    ("places", (2, 1), 4, f"input 'places' holds 4 at [2, 1], {SCATTER} -4 to 3"),
    ("places", (0, 1), -(2**63), f"input 'places' holds -9223372036854775808 at [0, 1], {SCATTER} -4 to 3"),
    ("places", (0, 0), 2**32, f"input 'places' holds 4294967296 at [0, 0], {SCATTER} -8 to 7"),
    ("by", (), 0, "input 'by' holds 0, and node 'share' (Div) divides by it"),
    (
        "regions",
        (0, 0),
        np.nan,
        f"input 'regions' holds nan at [0, 0], {POOL}",
    ),
    (
        "regions",
        (0, 0),
        2,
        f"input 'regions' holds 2 at [0, 0], {POOL}",
    ),
    (
        "ends",
        (3,),
        9,
        f"input 'ends' holds 9 at [3], {TURN}",
    ),
    (
        "ends",
        (0,),
        -1,
        f"input 'ends' holds -1 at [0], {TURN}",
    ),
]


def run(edge: Edge, bundle: Bundle, folder: Path, **changed: np.ndarray) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the answer of one run of the network, with some of its inputs changed."""
    (folder / "net.so").write_bytes(bundle.library)
    words: list[str | Path] = []
    for name, value in {**GOOD, **changed}.items():
        np.save(folder / f"{name}.npy", value)
        words += ["--input", folder / f"{name}.npy"]
    if bundle.manifest.runtime.devices:
        words += ["--device", bundle.manifest.device]
    functions = ",".join(bundle.manifest.runtime.functions)
    return edge("run", folder / "net.so", *words, "--functions", functions, "--output", folder / "out.npz")


def check(edge: Edge, bundle: Bundle, folder: Path) -> None:
    assert set(bundle.manifest.runtime.functions) == {"edge.check.indices", "edge.check.divisor"}
    code, answer = run(edge, bundle, folder)
    assert code == 0, answer
    with np.load(folder / "out.npz") as found:
        for each, expected in zip(found.values(), bundle.expected.values(), strict=True):
            np.testing.assert_allclose(each, expected, rtol=1e-5)
    for name, place, value, words in BAD:
        changed = GOOD[name].copy()
        changed[place] = value
        code, answer = run(edge, bundle, folder, **{name: changed})
        assert (code, answer["error"]["kind"]) == (2, "value"), answer
        assert words in answer["error"]["message"], answer


def built(board: str, folder: Path, **code: str) -> Bundle:
    options = BuildOptions(sample=GOOD, code=CodeOptions(**code))
    return read_bundle(build(loaded(network()), find_target(board), None, folder, options).bundle)


def test_on_the_cpu(edge: Edge, tmp_path: Path) -> None:
    check(edge, built(networks.CLASSES[edge.arch], tmp_path), tmp_path)


def test_on_an_opencl_device(native: Edge, tmp_path: Path) -> None:
    check(native, built("x86_64", tmp_path, device="opencl"), tmp_path)
