"""What a program of a user's sees of a network that libedge.so runs in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.runtime import cuda_network
from tests.runtime.cuda_device import names, read
from tests.runtime.test_shapes import made
from toolchain.api.networks import build, load
from toolchain.runtime import ensure_runtime
from toolchain.testbeds.cuda import ensure_emulated_cuda

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

ROOT = Path(__file__).parents[2]


def saw(network: Path, *steps: list[Any], device: str = "cpu", **environment: str) -> list[Any]:
    command = [
        sys.executable,
        "-m",
        "tests.runtime.embedding",
        ensure_runtime("x86_64").library,
        network,
        device,
    ]
    done = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        env={**os.environ, **environment},
        input=json.dumps(steps),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.fixture(scope="module")
def thresholds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a network of two shapes with a scalar input, and with outputs of two types."""
    folder = tmp_path_factory.mktemp("thresholds")
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["y"]),
        helper.make_node("ArgMax", ["x"], ["place"], axis=1, keepdims=0),
    ]
    inputs = [tensor_info("x", (1, "width")), tensor_info("scale", ())]
    outputs = [tensor_info("y", (1, "width")), tensor_info("place", (1,), TensorProto.INT64)]
    onnx.save(graph_of(nodes, inputs, outputs, {}), folder / "thresholds.onnx")
    _model, bundle = made(folder, folder / "thresholds.onnx", "x=1,{8,400000}")
    (folder / "net.so").write_bytes(bundle.library)
    return folder / "net.so"


SMALL = (["set", 0, "float32", [1, 8]], ["set", 1, "float32", []])


def test_each_output_keeps_its_type_when_another_is_fetched(thresholds: Path) -> None:
    outputs = saw(thresholds, *SMALL, ["run"], ["outputs"])[-1]
    assert outputs == [["float32", [1, 8]], ["int64", [1]]]


def test_scalar_input_has_no_extents(thresholds: Path) -> None:
    queries = [["shape", 0, 0], ["shape", 0, 1], ["shape", 1, 1], ["shape", 1, 2], ["shape", 2, 0]]
    assert saw(thresholds, *queries) == [[1, 400000], [], [], None, None]


def test_latencies_are_kept_per_shape(thresholds: Path) -> None:
    """Else a repeat of few milliseconds would take as many runs as one of the small shape took."""
    large = ["set", 0, "float32", [1, 400000]]
    answers = saw(thresholds, *SMALL, ["measure", 1, 20], large, ["measure", 1, 0])
    assert answers[2] > 10 and answers[-1] == 1


LARGE = ["set", 0, "float32", [1, 400000]]


def test_input_buffer_is_reused_for_the_same_shape(thresholds: Path) -> None:
    """1.6 MB are 390 pages, which the system gives and takes back each time."""
    answers = saw(thresholds, LARGE, SMALL[1], ["run"], [*LARGE, 2, 50], ["run"], ["first", 0])
    assert answers[3] < 390
    assert answers[-1] == 2


@pytest.fixture(scope="module")
def reshaped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a network with an output that is its input in another shape."""
    folder = tmp_path_factory.mktemp("reshaped")
    nodes = [helper.make_node("Reshape", ["x", "flat"], ["y"]), helper.make_node("Neg", ["x"], ["less"])]
    outputs = [tensor_info("y", (8,)), tensor_info("less", (2, 4))]
    graph = graph_of(nodes, [tensor_info("x", (2, 4))], outputs, {"flat": np.array([8])})
    onnx.save(graph, folder / "reshaped.onnx")
    built = build(load(folder / "reshaped.onnx"), "local", folder)
    return built.library


def test_aliased_output_lives_until_the_next_run(reshaped: Path) -> None:
    fill = ["set", 0, "float32", [2, 4]]
    steps = [[*fill, 3], ["run"], ["first", 0], ["first", 1], [*fill, 5], ["first", 0], ["first", 1], ["run"]]
    answers = saw(reshaped, *steps)
    assert (answers[2:4], answers[5:7]) == ([3, -3], [3, -3])


def test_another_library_may_take_the_threads_cuda_context(tmp_path: Path) -> None:
    driver, log = str(ensure_emulated_cuda()), tmp_path / "log"
    network = tmp_path / "net.so"
    network.write_bytes(cuda_network.chain())
    step = ["set", 0, "float32", [cuda_network.NUMBERS]]
    steps = [
        step,
        ["run"],
        ["leave", driver],
        step,
        ["leave", driver],
        ["run"],
        ["leave", driver],
        ["outputs"],
    ]
    environment = {"EDGE_CUDA_DRIVER": driver, "EDGE_CUDA_LOG": str(log)}
    answers = saw(network, *steps, device="cuda", **environment)
    assert answers[-1] == [["float32", [cuda_network.NUMBERS]]]
    assert names(read(log)).count("cuMemcpyHtoDAsync_v2") >= 2
