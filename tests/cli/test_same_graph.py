"""`tasks`, `tune` and `build` see the same graph, whatever the model options are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Toolchain
from tests.measuring.small_network import network
from toolchain.bundles.read import read_bundle


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("options", [[], ["--layout", "NHWC"], ["--winograd", "off"]], ids=" ".join)
def test_workloads_agree(invoke: Toolchain, folder: Path, options: list[str]) -> None:
    network(folder / "small.onnx")
    common = ["small.onnx", "--board", "local", "--json", *options]
    listed = [task["id"] for task in invoke("tasks", *common).document]
    planned = [task["id"] for task in invoke("tune", *common, "--dry-run").document]
    built = read_bundle(Path(invoke("build", *common, "-o", "out").document["bundle"]))
    assert listed == planned == [task.id for task in built.manifest.tasks] != []


@pytest.mark.usefixtures("state")
def test_a_layout_makes_other_workloads(invoke: Toolchain, folder: Path) -> None:
    network(folder / "small.onnx")
    layouts = ("NCHW", "NHWC")
    found = [invoke("tasks", "small.onnx", "--layout", x, "--json").document for x in layouts]
    assert {task["id"] for task in found[0]} != {task["id"] for task in found[1]}


def test_a_tasks_program_can_be_shown(invoke: Toolchain, folder: Path) -> None:
    network(folder / "small.onnx")
    first = invoke("tasks", "small.onnx", "--board", "rk3399", "--json").document[0]
    ran = invoke("tasks", "small.onnx", "--board", "rk3399", "--show", first["id"])
    assert ran.code == 0 and "prim_func" in ran.out
