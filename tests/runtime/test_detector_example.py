"""The detector of the documentation: the network up to its suppression, which the program does itself."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.runtime.test_library import EXAMPLES, Place
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import build
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

CELLS, CLASSES = 64, 3


def detector() -> onnx.ModelProto:
    """Return a head over 8 by 8 cells: boxes by two corners, scores, and the suppression behind them."""
    random = np.random.default_rng(3)
    weights = {
        "w": random.normal(size=(4 + CLASSES, 3, 3, 3)).astype(np.float32),
        "corners": random.uniform(0, 8, (1, CELLS, 4)).astype(np.float32),
        "parts": np.array([4, CLASSES]),
        "flat": np.array([1, -1, CELLS]),
        "most": np.array([100]),
        "overlap": np.array([0.5], np.float32),
        "least": np.array([0.3], np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Reshape", ["c", "flat"], ["f"]),
        helper.make_node("Split", ["f", "parts"], ["b", "s"], axis=1),
        helper.make_node("Transpose", ["b"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Tanh", ["t"], ["shift"]),
        helper.make_node("Add", ["shift", "corners"], ["boxes"]),
        helper.make_node("Sigmoid", ["s"], ["scores"]),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["kept"]),
    ]
    return graph_of(
        nodes,
        [tensor_info("x", (1, 3, 8, 8))],
        [tensor_info("kept", (None, 3), TensorProto.INT64)],
        weights,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return a folder with libedge.so, the detector's library up to boxes and scores, and an input."""
    place = Place(tmp_path_factory.mktemp("detector"), "local")
    onnx.save(detector(), place.folder / "detector.onnx")
    model = load_model(str(place.folder / "detector.onnx"), ModelOptions(outputs=("boxes,scores",)))
    built = build(model, find_target("local"), None, place.folder / "out")
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    x.tofile(place.folder / "input.bin")
    place.arguments = [str(built.library), "1x3x8x8", str(place.folder / "input.bin")]
    return place


def check(place: Place, *start: object) -> None:
    """Compare what a program prints with onnxruntime's result of the whole file."""
    detector_bundle = detector()
    for name in ("boxes", "scores"):
        detector_bundle.graph.output.append(tensor_info(name, None))
    x = np.fromfile(place.folder / "input.bin", np.float32).reshape(1, 3, 8, 8)
    session = onnxruntime.InferenceSession(
        detector_bundle.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    kept, boxes, scores = session.run(["kept", "boxes", "scores"], {"x": x})
    assert CELLS // 2 < len(kept) < CLASSES * CELLS, "some are kept and some are not"
    done = place.run(*start, *place.arguments)
    assert done.returncode == 0, done.stderr
    computed = np.array([line.split() for line in done.stdout.splitlines()], float)
    expected = [(kind, scores[0, kind, i], *boxes[0, i]) for _, kind, i in kept]
    np.testing.assert_allclose(computed, np.array(expected, float), rtol=1e-4, atol=1e-5)


def test_python_example_matches_onnxruntime(place: Place) -> None:
    check(place, sys.executable, EXAMPLES / "detector.py")


def test_c_example_matches_onnxruntime(place: Place) -> None:
    program = place.sdk / "detector"
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{place.sdk}"]
    link = [f"-L{place.sdk}", "-ledge", "-Wl,-rpath,$ORIGIN", "-o", str(program)]
    compiled = run_zig(["cc", *flags, str(EXAMPLES / "detector.c"), *link], 120, zig_cache_environment())
    assert compiled.returncode == 0, compiled.output
    check(place, program)
