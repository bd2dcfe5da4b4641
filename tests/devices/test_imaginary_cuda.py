"""A kind of device that is a folder and rows outside of the package goes where the package's own go."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import plugins
from tests import toy_network as network
from tests.cli.running import Ran, Toolchain
from toolchain.boards.edge_rt.answers import DevicesThere, State
from toolchain.boards.edge_rt.looks import looks_of, nodes_of
from toolchain.bundles.read import read_bundle
from toolchain.devices.table import OWN, find_kind, kind_names, kind_of, peak_flops
from toolchain.measuring.deadlines import deadline
from toolchain.profiles import load_profile
from toolchain.tuning.boards.failing import failure_of

ORIN = """description = "a board with an imaginary GPU"
triple = "aarch64-unknown-linux-gnu"
glibc = "2.27"
memory_mib = 2048

[[clusters]]
cpu = "cortex-a78"
cores = 2

[[devices]]
kind = "cpu"

[[devices]]
kind = "cuda"
name = "Orin"
arch = "sm_87"
compute_units = 8
max_work_group = 1024
local_bytes = 49152
private_bytes = 1020
vector_bytes = 16
half = true
"""
HERE = ("small.onnx", "--board", "orin", "--device", "cuda")
FACTS = {"name": "Orin", "type": "gpu", "driver_version": "1", "platform": "imaginary", "half": True}
FACTS |= {"multiprocessors": 8, "shared_bytes": 49152}


@pytest.fixture(autouse=True)
def cuda(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plugins.install(tmp_path / "site", monkeypatch, cuda="tests.imaginary_cuda.kind:CUDA")
    network.write_project(folder)
    (folder / "boards" / "orin").mkdir()
    (folder / "boards" / "orin" / "board.toml").write_text(ORIN)
    monkeypatch.chdir(folder)
    yield
    plugins.forget()


def told(ran: Ran) -> Ran:
    assert ran.code == 0, ran.err
    return ran


def test_it_is_one_of_the_kinds() -> None:
    assert kind_names() == (*OWN, "cuda")
    assert find_kind("rocm") is None
    assert deadline(1e9, load_profile("orin"), emulated=False, device="cuda:orin").seconds > 90
    assert peak_flops("cuda:orin") == 4e12 and peak_flops("cuda:other") == 2e14


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        (
            "[cause out-of-resources] cuLaunchKernel says CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)",
            "registers",
        ),
        ("[cause invalid-ptx] cuModuleLoadData says CUDA_ERROR_INVALID_PTX (218)", "build"),
        ("[cause work-group] of another kind of device", "runtime"),
        ("cuLaunchKernel says CUDA_ERROR_UNKNOWN (999)", "runtime"),
    ],
)
def test_its_runtimes_errors_have_a_kind(said: str, failure: str) -> None:
    assert failure_of(RuntimeError(said), "runtime", kind_of("cuda"))[0] == failure


def test_what_its_driver_says_has_its_own_form() -> None:
    there = {"kind": "cuda", "names": ["Orin"], "problem": None, "details": [FACTS]}
    read = DevicesThere.model_validate_json(json.dumps(there))
    assert read.model_dump(mode="json")["details"] == [FACTS]
    with pytest.raises(ValueError, match="multiprocessors"):
        DevicesThere.model_validate_json(json.dumps({**there, "details": [{**FACTS, "multiprocessors": -1}]}))


def test_board_status_looks_at_it() -> None:
    (look,) = looks_of(["cpu", "cuda"])
    assert look.hints("orin", State(others={"power_mode": ("MAXN",)}), []) == ["orin is in power mode MAXN"]
    assert "/dev/imaginary-cuda" in nodes_of(["cuda"]) and "/dev/imaginary-cuda" not in nodes_of(["cpu"])


def test_a_class_needs_its_keys(folder: Path, invoke: Toolchain) -> None:
    file = folder / "boards" / "orin" / "board.toml"
    file.write_text(ORIN.replace('arch = "sm_87"\n', ""))
    missing = invoke("board", "show", "orin")
    assert missing.code == 2 and missing.says("a device of kind cuda needs: arch")
    file.write_text(ORIN.replace("arch =", "architecture ="))
    assert invoke("board", "show", "orin").says("devices.1.architecture: unknown key")


@pytest.mark.usefixtures("state")
def test_board_show_has_its_keys(invoke: Toolchain) -> None:
    shown = told(invoke("board", "show", "orin", "--json")).document
    assert shown["devices"][1]["arch"] == "sm_87"
    assert shown["devices"][1]["plugin"] == "edge-cuda 1.0" and "plugin" not in shown["devices"][0]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("command", ["tasks", "tune", "build"])
def test_help_and_refusals_name_it(invoke: Toolchain, command: str) -> None:
    shown = " ".join(told(invoke(command, "--help")).out.split())
    assert "cpu, opencl or vta; of plugins: cuda; `toolchain board show" in shown
    typo = invoke("tasks", "small.onnx", "--board", "orin", "--device", "cud")
    assert typo.code == 2 and typo.says("it has: cpu, cuda; the kinds of devices are: cpu, opencl, vta, cuda")


@pytest.mark.usefixtures("state")
def test_broken_it_fails_alone(
    invoke: Toolchain, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what needs it fails, and names the package."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "broken_npu.py").write_text("raise SystemExit('no licence')")
    plugins.install(tmp_path / "broken", monkeypatch, npu="broken_npu:NPU")
    (folder / "boards" / "npu").mkdir()
    (folder / "boards" / "npu" / "board.toml").write_text(ORIN.replace('kind = "cuda"', 'kind = "npu"'))
    needs = invoke("board", "show", "npu")
    assert needs.code == 3 and needs.says("edge-npu, which cannot be loaded: no licence", "pip uninstall")
    assert "Traceback" not in needs.err
    told(invoke("board", "show", "orin"))
    shutil.rmtree(folder / "boards" / "x86_64")  # the toy's, which is not installed
    assert "npu" in told(invoke("board", "list")).out
    assert "of plugins: cuda, npu;" in " ".join(told(invoke("build", "--help")).out.split())
    there = {"kind": "npu", "names": ["x"], "problem": None, "details": []}
    assert DevicesThere.model_validate_json(json.dumps(there)).names == ("x",)


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_tasks_code_and_explain(invoke: Toolchain) -> None:
    task, *_others = told(invoke("tasks", *HERE, "--json")).document
    code = told(invoke("tasks", *HERE, "--show", task["id"], "--code", "--form", "cuda")).out
    assert "__global__ void" in code and "threadIdx.x" in code
    explained = told(invoke("tasks", *HERE, "--explain", task["id"], "--json")).document
    (kernel,) = explained["kernels"]
    assert kernel["private_bytes"] > 0 and kernel["vector_width"] == 4 and kernel["model"] is None
    modelled = told(invoke("tasks", *HERE, "--explain", task["id"], "--model"))
    assert "GUESSED MS" in modelled.out and "times are guesses" in modelled.err
    other = invoke("tasks", *HERE, "--show", task["id"], "--code", "--form", "opencl")
    assert other.code == 2 and other.says("--form opencl", "for another device, cuda")


@pytest.mark.slow
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("layout", ["packed", "NHWC"])
def test_a_network_is_built_with_its_source(invoke: Toolchain, layout: str) -> None:
    built = told(invoke("build", *HERE, "--layout", layout, "-o", "out", "--json")).document
    manifest = read_bundle(Path(built["bundle"])).manifest
    assert (manifest.device, manifest.runtime.devices) == ("cuda:orin", ("cuda",))
    assert b'extern "C" __global__ void' in Path(built["library"]).read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_its_model_is_a_runner(invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
    tuned = told(invoke("tune", *HERE, "--runner", "guess", "--trials", "3", "--json")).document
    assert tuned["failed"] == 0
    best = told(invoke("records", "best", "--json")).document
    assert best and {record["device"] for record in best} == {"cuda:orin"}
    built = told(invoke("build", *HERE, "--require-tuned", "-o", "out", "--json")).document
    assert built["tasks"]["tuned"] == built["tasks"]["total"]
