"""A backend from outside of the package goes the whole way through the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.running import Toolchain
from tests.models.graphs import graph_of, tensor_info
from tests.toy.backend import OFFER, POINTS
from toolchain import profiles
from toolchain.backends import table
from toolchain.bundles.read import read_bundle

BOARD = """description = "PC"
triple = "x86_64-unknown-linux-gnu"
glibc = "2.27"
memory_mib = 2048

[[clusters]]
cpu = "x86-64-v3"
cores = 2

[[devices]]
kind = "cpu"

[[devices]]
kind = "toy"
"""
HERE = ("small.onnx", "--board", "local", "--device", "toy")


@pytest.fixture
def toy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a network, a class of boards that have the device, and records of its own."""
    monkeypatch.setattr(table, "BACKENDS", [*table.BACKENDS, OFFER])
    monkeypatch.setattr(profiles, "DEVICE_KINDS", (*profiles.DEVICE_KINDS, "toy"))
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
    (folder / "toolchain.toml").touch()
    (folder / "boards" / "x86_64").mkdir(parents=True)
    (folder / "boards" / "x86_64" / "board.toml").write_text(BOARD)
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal((64, 64)).astype(np.float32) / 8 for name in "ab"}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Softmax", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    ends = [[tensor_info(name, (16, 64))] for name in "xy"]
    onnx.save(graph_of(nodes, *ends, weights), folder / "small.onnx")
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("state", "toy")
@pytest.mark.parametrize("tuner", ["gridsearch", "random"])
def test_it_is_tuned_built_bundled_and_verified(invoke: Toolchain, tuner: str) -> None:
    tasks = invoke("tasks", *HERE, "--json").document
    assert len(tasks) == 1 and tasks[0]["weight"] == 2

    tuned = invoke("tune", *HERE, "--tuner", tuner, "--trials", "100", "--json").document
    assert (tuned["trials"], tuned["failed"]) == (len(POINTS) - 1, 0), "all but the default, then it is told"
    assert tuned["boards"] == {}
    again = invoke("tune", *HERE, "--tuner", tuner, "--trials", "100", "--json").document
    assert again["trials"] == 0, "nothing is measured twice"

    (best,) = invoke("records", "best", "--json").document
    assert (best["device"], best["kind"], best["workload"][:8]) == ("toy:numpy", "toy", tasks[0]["id"])

    built = invoke("build", *HERE, "--require-tuned", "-o", "out", "--json").document
    assert built["tasks"]["tuned"] == 1
    manifest = read_bundle(Path(built["bundle"])).manifest
    assert (manifest.device, manifest.runtime.devices, manifest.layout) == ("toy:numpy", (), "plain")
    assert invoke("verify", built["bundle"], "--board", "local", "--json").document["passed"]


@pytest.mark.usefixtures("state", "toy")
def test_its_records_say_nothing_to_cpus(invoke: Toolchain) -> None:
    invoke("tune", *HERE, "--trials", "2")
    built = invoke("build", "small.onnx", "--board", "local", "-o", "out", "--json").document
    assert built["tasks"]["tuned"] == 0


@pytest.mark.usefixtures("state", "toy")
def test_what_it_has_not_is_named(invoke: Toolchain) -> None:
    layout = invoke("tasks", *HERE, "--layout", "NHWC")
    assert layout.code == 2 and layout.says("--layout NHWC", "--device toy", "plain")
    runner = invoke("tune", *HERE, "--runner", "model")
    assert runner.code == 2 and runner.says("--runner model", "numpy")
    tuner = invoke("tune", *HERE, "--tuner", "evolutionary")
    assert tuner.code == 2 and tuner.says("--tuner evolutionary", "random")
