"""`toolchain tasks`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.measuring.small_network import network


@pytest.mark.usefixtures("state")
def test_the_heaviest_task_comes_first(invoke: Toolchain, files: Path) -> None:
    assert (files / "good.onnx").exists()
    tasks = invoke("tasks", "good.onnx", "--board", "rk3399", "--json").document
    work = [task["weight"] * task["flops"] for task in tasks]
    assert len(work) == 4 and work == sorted(work, reverse=True) and work[-1] > 0
    lines = invoke("tasks", "good.onnx", "--board", "rk3399").out.splitlines()
    assert [line.split()[0] for line in lines] == ["ID", *(task["id"] for task in tasks)]


def test_a_tasks_program_can_be_shown(invoke: Toolchain, folder: Path) -> None:
    network(folder / "small.onnx")
    first = invoke("tasks", "small.onnx", "--board", "rk3399", "--json").document[0]
    ran = invoke("tasks", "small.onnx", "--board", "rk3399", "--show", first["id"])
    assert ran.code == 0 and "prim_func" in ran.out


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("form", "has"),
    [
        ("tir", ["prim_func", "# aarch64:", "DirectChoice("]),
        ("llvm", ["define", "<4 x float>"]),
        ("assembly", ["fmla"]),
    ],
)
def test_the_code_of_a_task_can_be_read(invoke: Toolchain, files: Path, form: str, has: list[str]) -> None:
    assert (files / "good.onnx").exists()
    common = ["tasks", "good.onnx", "--board", "rk3399"]
    tasks = invoke(*common, "--json").document
    convolution = next(task["id"] for task in tasks if "conv" in task["name"])
    ran = invoke(*common, "--show", convolution, "--code", "--form", form, "--json")
    assert ran.document["form"] == form and ran.document["source"] == ""
    assert all(word in ran.document["code"] for word in has), ran.document["code"][:2000]


@pytest.mark.usefixtures("state")
def test_code_of_plain_loops_can_be_read(invoke: Toolchain, files: Path) -> None:
    assert (files / "good.onnx").exists()
    common = ["tasks", "good.onnx", "--board", "rk3399", "--layout", "NCHW"]
    first = invoke(*common, "--json").document[0]
    assert "T.parallel" in invoke(*common, "--show", first["id"], "--code").out


NAMES = [
    (["tasks", "good.onnx", "--board", "rk3388"], ["--board rk3388", "rk3399"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--device", "npu"], ["--device npu", "cpu"]),
    (["tasks", "good.onnx", "--board", "pynq", "--device", "opencl"], ["--device opencl", "it has: cpu"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--cluster", "m1"], ["--cluster m1", "cortex-a53"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--show", "nosuch"], ["--show nosuch"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--code"], ["--code", "--show ID"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--dtype", "float16"], ["--dtype float16"]),
    (["tasks", "good.onnx", "--board", "local", "--dtype", "float16", "--layout", "NCHW"], ["--layout NCHW"]),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("arguments", "says"), NAMES, ids=[" ".join(row[0]) for row in NAMES])
def test_names_and_options_that_are_none(
    invoke: Toolchain, files: Path, arguments: list[str], says: list[str]
) -> None:
    refused(invoke, files, 2, says, *arguments)
