"""The demo over SSH, as a user types it: the arm64 container board, then armhf and a user's network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

_DEADLINE_S = 1800
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * _DEADLINE_S)]


def toolchain(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toolchain", *arguments]
    return subprocess.run(
        command,
        cwd=cwd,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOOLCHAIN_STATE_DIR", str(folder / "state"))
        patch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
        try:
            yield folder
        finally:
            for board in ("rk3399-emulated", "pynq-emulated"):
                toolchain("board", "emulate", "stop", board, cwd=folder)


@pytest.fixture(scope="module")
def demo(home: Path) -> dict[str, Any]:
    ended = toolchain("demo", "--trials", "16", "--json", cwd=home)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_mobilenet_is_tuned_built_verified_and_timed_on_aarch64(demo: dict[str, Any]) -> None:
    assert demo["board"] == "rk3399-emulated"
    assert demo["machine"] == "aarch64"
    assert demo["transport"] == "ssh"
    assert demo["trials"] >= 16
    assert 0 < demo["tasks"]["tuned"] <= demo["tasks"]["total"]
    assert demo["tasks"]["improved"] <= demo["tasks"]["tuned"]
    assert demo["verify"]["passed"] is True
    assert demo["verify"]["outputs"][0]["max_rel_error"] <= demo["verify"]["tolerance"]
    assert demo["bench"]["runs"] >= 1
    assert demo["bench"]["mean_ms"] > 0


def test_demo_leaves_a_bundle_and_a_report(demo: dict[str, Any]) -> None:
    report = Path(demo["report"])
    assert report.is_absolute()
    assert "rk3399-emulated" in report.read_text()
    assert Path(demo["bundle"]).is_absolute()
    assert Path(demo["bundle"]).stat().st_size > 10_000_000


def test_build_takes_what_the_demo_tuned_and_says_so(demo: dict[str, Any], home: Path) -> None:
    ended = toolchain(
        "build", "zoo:mobilenet", "--board", "rk3399-emulated", "-o", "again", "--json", cwd=home
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["tasks"] == demo["tasks"]


def test_records_of_an_emulated_board_stay_out_of_builds_for_the_class(
    demo: dict[str, Any], home: Path
) -> None:
    ended = toolchain("build", "zoo:mobilenet", "--board", "rk3399", "-o", "class", "--json", cwd=home)
    assert ended.returncode == 0, ended.stderr
    assert demo["tasks"]["tuned"] > 0
    assert json.loads(ended.stdout)["tasks"]["tuned"] == 0


@pytest.mark.parametrize(("board_class", "machine"), [("rk3399", "aarch64"), ("pynq", "armv7l")])
def test_the_same_way_with_ones_own_network_and_input(
    demo: dict[str, Any], home: Path, board_class: str, machine: str
) -> None:
    board = f"{board_class}-emulated"
    if board != demo["board"]:
        started = toolchain("board", "emulate", "start", board_class, "--kind", "container", cwd=home)
        assert started.returncode == 0, started.stderr
    onnx.save(_own_network(), home / "mine.onnx")
    np.save(home / "x.npy", np.random.default_rng(3).standard_normal((1, 3, 32, 32)).astype("float32"))
    own = ["mine.onnx", "--input", "gpu_0/data_0=x.npy", "--board", board]
    ended = toolchain("demo", *own, "--trials", "4", "-o", board_class, "--json", cwd=home)
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert (result["transport"], result["machine"]) == ("ssh", machine)
    assert result["verify"]["passed"] is True
    assert result["tasks"]["tuned"] > 0
    ran = toolchain(
        *("run", result["bundle"], "--board", board, "--input", "gpu_0/data_0=x.npy", "-o", "y.npz"), cwd=home
    )
    assert ran.returncode == 0, ran.stderr
    with np.load(home / "y.npz") as outputs:
        assert outputs.files == ["result"]
        assert outputs["result"].shape == (1, 8)


def _own_network() -> onnx.ModelProto:
    random = np.random.default_rng(0)
    weights = {
        "w": random.standard_normal((8, 3, 3, 3)).astype("float32") / 5,
        "b": random.standard_normal(8).astype("float32"),
    }
    nodes = [
        helper.make_node("Conv", ["gpu_0/data_0", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["result"], name="flatten"),
    ]
    graph = helper.make_graph(
        nodes,
        "mine",
        [helper.make_tensor_value_info("gpu_0/data_0", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, [1, 8])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
