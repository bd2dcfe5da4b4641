"""`tasks`, `tune` and `build` see the same graph, whatever the model options are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.measuring.small_network import network
from tests.models.graphs import graph_of, tensor_info
from toolchain.bundles.read import read_bundle


@pytest.mark.slow
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("options", [[], ["--layout", "NHWC"], ["--winograd", "off"]], ids=" ".join)
def test_workloads_agree(invoke: Toolchain, folder: Path, options: list[str]) -> None:
    network(folder / "small.onnx")
    common = ["small.onnx", "--board", "local", "--json", *options]
    listed = [task["id"] for task in invoke("tasks", *common).document]
    planned = [task["id"] for task in invoke("tune", *common, "--dry-run").document["tasks"]]
    built = read_bundle(Path(invoke("build", *common, "-o", "out").document["bundle"]))
    assert listed == planned == [task.id for task in built.manifest.tasks] != []


def streaming() -> onnx.ModelProto:
    """Return a network with an open batch, a parameter, and an output whose shape depends on the data."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Shape", ["c"], ["extents"]),
        helper.make_node("Concat", ["extents", "times"], ["wide"], axis=0),
        helper.make_node("Gather", ["wide", "order"], ["target"]),
        helper.make_node("Unsqueeze", ["c", "front"], ["row"]),
        helper.make_node("Expand", ["row", "target"], ["spread"]),
        helper.make_node("Relu", ["spread"], ["y"]),
        helper.make_node("NonZero", ["y"], ["where"]),
    ]
    return graph_of(
        nodes,
        [tensor_info("x", ("n", 3, 8, 8)), tensor_info("times", ("one",), TensorProto.INT64)],
        [tensor_info("where", (5, None), TensorProto.INT64)],
        {
            "w": random.normal(size=(8, 3, 3, 3)).astype(np.float32),
            "order": np.array([4, 0, 1, 2, 3]),
            "front": np.array([0]),
        },
    )


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_every_command_takes_the_parts_of_a_network(invoke: Toolchain, folder: Path) -> None:
    onnx.save(streaming(), folder / "small.onnx")
    np.save(folder / "times.npy", np.array([2]))
    chosen = ["--shape", "x=1,3,8,8", "--input-value", "times=times.npy", "--outputs", "y,c"]
    common = ["small.onnx", "--json", *chosen]
    listed = [task["id"] for task in invoke("tasks", *common, "--board", "local").document]
    planned = [
        task["id"] for task in invoke("tune", *common, "--board", "local", "--dry-run").document["tasks"]
    ]
    built = read_bundle(Path(invoke("build", *common, "--board", "local", "-o", "out").document["bundle"]))
    assert listed == planned == [task.id for task in built.manifest.tasks] != []
    assert [each.name for each in built.manifest.inputs] == ["x"]
    assert [each.name for each in built.manifest.outputs] == ["y", "c"]
    seen = invoke("model", "inspect", *common).document
    assert [value["name"] for value in seen["outputs"]] == ["y", "c"] and seen["data_dependent"] == []
    invoke("model", "export", *common, "-o", "part.onnx")
    part = invoke("tasks", "part.onnx", "--json", "--board", "local").document
    assert [task["id"] for task in part] == listed
    other = [word.replace("times.npy", "3") for word in chosen]
    assert [task["id"] for task in invoke("tasks", "small.onnx", "--json", *other).document] != listed


@pytest.mark.usefixtures("state")
def test_the_hint_to_tune_has_all_that_was_chosen(invoke: Toolchain, folder: Path) -> None:
    onnx.save(streaming(), folder / "a network.onnx")
    chosen = ["--shape", "x=1,3,8,8", "--input-value", "times=2", "--outputs", "y"]
    ran = invoke("build", "a network.onnx", "--board", "local", "--require-tuned", "-o", "out", *chosen)
    assert ran.code == 1
    assert f"/a network.onnx' --board local {' '.join(chosen)}" in ran.err


@pytest.mark.usefixtures("state")
def test_a_layout_makes_other_workloads(invoke: Toolchain, folder: Path) -> None:
    network(folder / "small.onnx")
    layouts = ("NCHW", "NHWC")
    found = [invoke("tasks", "small.onnx", "--layout", x, "--json").document for x in layouts]
    assert {task["id"] for task in found[0]} != {task["id"] for task in found[1]}


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("value", ["", ",", "sm_90,", " "])
def test_refuses_empty_architecture_name(invoke: Toolchain, folder: Path, value: str) -> None:
    """An unset variable of a script is not the class's architectures, silently."""
    network(folder / "small.onnx")
    for command in (["build", "-o", "out"], ["tasks"], ["tune"]):
        arguments = [command[0], "small.onnx", "--board", "cuda", "--arch", value, *command[1:]]
        refused(invoke, folder, 2, [f"--arch {value!r}", "leave the option out"], *arguments)
