"""`toolchain tasks`."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.measuring.small_network import network
from tests.testbeds.mali.fixed_model import FixedModel
from toolchain.quantities import shown_ms
from toolchain.testbeds.mali import model as mali


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


@pytest.mark.slow
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


OPENCL = ("good.onnx", "--board", "rk3399", "--device", "opencl")


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_what_kernels_ask_of_a_device_is_explained(invoke: Toolchain, files: Path) -> None:
    assert (files / "good.onnx").exists()
    tasks = invoke("tasks", *OPENCL, "--json").document
    convolution = next(task["id"] for task in tasks if "conv" in task["name"])
    document = invoke("tasks", *OPENCL, "--explain", convolution, "--json").document
    assert document["id"] == convolution and document["rule"]
    for kernel in document["kernels"]:
        items = prod(kernel["group"])
        assert 1 <= items <= 256 and kernel["vector_width"] in (1, 2, 4, 8, 16)
        assert kernel["barriers"] == 0 and kernel["model"] is None
    ran = invoke("tasks", *OPENCL, "--explain", convolution)
    chosen, head = ran.out.splitlines()[:2]
    assert chosen.endswith(f": {document['rule']}, by default")
    assert head.split()[:3] == ["KERNEL", "GROUP", "GROUPS"] and "MODEL" not in head
    on_cpu = invoke("tasks", "good.onnx", "--board", "rk3399", "--explain", convolution)
    assert on_cpu.code == 2 and on_cpu.says("this code is for a CPU", "--device opencl")


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_model_says_what_it_is(invoke: Toolchain, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (files / "good.onnx").exists()
    monkeypatch.setattr(mali, "MaliModel", FixedModel)
    tasks = invoke("tasks", *OPENCL, "--json").document
    convolution = next(task["id"] for task in tasks if "conv" in task["name"])
    ran = invoke("tasks", *OPENCL, "--explain", convolution, "--model")
    assert ran.code == 0 and "REGISTERS  SPILLS:FILLS" in ran.out and "  7:9  " in ran.out
    assert "times are modelled, not measured" in ran.err
    document = invoke("tasks", *OPENCL, "--explain", convolution, "--model", "--json").document
    assert {kernel["model"]["modelled_ms"] for kernel in document["kernels"]} == {0.25}
    assert f"{shown_ms(0.25 * len(document['kernels']))} by the model" in ran.out.splitlines()
    other = invoke("tasks", *OPENCL[:-1], "opencl:other", "--explain", convolution, "--model")
    assert other.code == 2 and other.says("a model of opencl:mali-t860", "opencl:other")


NAMES = [
    (["tasks", "good.onnx", "--board", "rk3388"], ["--board rk3388", "rk3399"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--device", "npu"], ["--device npu", "cpu"]),
    (["tasks", "good.onnx", "--board", "pynq", "--device", "opencl"], ["--device opencl", "it has: cpu"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--cluster", "m1"], ["--cluster m1", "cortex-a53"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--show", "nosuch"], ["--show nosuch"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--code"], ["--code", "--show ID"]),
    (["tasks", *OPENCL, "--explain", "nosuch"], ["--explain nosuch"]),
    (["tasks", *OPENCL, "--model"], ["--model", "--explain ID"]),
    (["tasks", *OPENCL, "--explain", "a", "--show", "b"], ["--show and --explain"]),
    (["tasks", "good.onnx", "--board", "rk3399", "--dtype", "float16"], ["--dtype float16"]),
    (["tasks", "good.onnx", "--board", "local", "--dtype", "float16", "--layout", "NCHW"], ["--layout NCHW"]),
]


@pytest.mark.slow
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("arguments", "says"), NAMES, ids=[" ".join(row[0]) for row in NAMES])
def test_refuses_unknown_names_and_bad_options(
    invoke: Toolchain, files: Path, arguments: list[str], says: list[str]
) -> None:
    refused(invoke, files, 2, says, *arguments)
