"""A kind of device that is a folder and rows outside of the package goes where the package's own go."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import plugins
from tests import toy_network as network
from tests.cli.running import Ran, Toolchain
from toolchain.boards.edge_rt.answers import DevicesThere, State
from toolchain.boards.edge_rt.status import looks_of, nodes_of
from toolchain.bundles.read import read_bundle
from toolchain.devices.table import OWN, find_kind, kind_names, kind_of, peak_flops
from toolchain.measuring.deadlines import deadline
from toolchain.profiles import load_profile
from toolchain.tuning.plans.answers import failure_of
from toolchain.tvm_compat import without_tensor_intrinsics

TABLET = """description = "a board with an imaginary GPU"
triple = "aarch64-unknown-linux-gnu"
glibc = "2.27"
memory_mib = 2048

[[clusters]]
cpu = "cortex-a78"
cores = 2

[[devices]]
kind = "cpu"

[[devices]]
kind = "metal"
name = "G13"
family = "apple7"
compute_units = 8
max_work_group = 1024
local_bytes = 49152
private_bytes = 1020
vector_bytes = 16
half = true
"""
HERE = ("small.onnx", "--board", "tablet", "--device", "metal")
FACTS = {"name": "G13", "type": "gpu", "driver_version": "1", "platform": "imaginary", "half": True}
FACTS |= {"multiprocessors": 8, "shared_bytes": 49152}


@pytest.fixture(autouse=True)
def cuda(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plugins.install(tmp_path / "site", monkeypatch, metal="tests.imaginary_metal.kind:METAL")
    network.write_project(folder)
    (folder / "boards" / "tablet").mkdir()
    (folder / "boards" / "tablet" / "board.toml").write_text(TABLET)
    monkeypatch.chdir(folder)
    yield
    plugins.forget()


def told(ran: Ran) -> Ran:
    assert ran.code == 0, ran.err
    return ran


def test_it_is_one_of_the_kinds() -> None:
    assert kind_names() == (*OWN, "metal")
    assert find_kind("rocm") is None
    assert deadline(1e9, load_profile("tablet"), emulated=False, device="metal:g13").seconds > 90
    assert peak_flops("metal:g13") == 4e12 and peak_flops("metal:other") == 2e14


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        (
            "[cause out-of-threads] the pipeline says MTLErrorTooManyThreads",
            "registers",
        ),
        ("[cause no-library] newLibrary says MTLLibraryErrorCompileFailure", "build"),
        ("[cause work-group] of another kind of device", "runtime"),
        ("the queue says MTLErrorUnknown", "runtime"),
    ],
)
def test_its_runtimes_errors_have_a_kind(said: str, failure: str) -> None:
    assert failure_of(RuntimeError(said), "runtime", kind_of("metal"))[0] == failure


def test_what_its_driver_says_has_its_own_form() -> None:
    there = {"kind": "metal", "names": ["G13"], "problem": None, "details": [FACTS]}
    read = DevicesThere.model_validate_json(json.dumps(there))
    assert read.model_dump(mode="json")["details"] == [FACTS]
    with pytest.raises(ValueError, match="multiprocessors"):
        DevicesThere.model_validate_json(json.dumps({**there, "details": [{**FACTS, "multiprocessors": -1}]}))


def test_board_status_looks_at_it() -> None:
    (look,) = looks_of(["cpu", "metal"])
    assert look.hints("tablet", State(others={"power_mode": ("MAXN",)}), []) == [
        "tablet is in power mode MAXN"
    ]
    assert "/dev/imaginary-metal" in nodes_of(["metal"]) and "/dev/imaginary-metal" not in nodes_of(["cpu"])


def test_a_class_needs_its_keys(folder: Path, invoke: Toolchain) -> None:
    file = folder / "boards" / "tablet" / "board.toml"
    file.write_text(TABLET.replace('family = "apple7"\n', ""))
    missing = invoke("board", "show", "tablet")
    assert missing.code == 2 and missing.says("a device of kind metal needs: family")
    file.write_text(TABLET.replace("family =", "architecture ="))
    assert invoke("board", "show", "tablet").says("devices.1.architecture: unknown key")


@pytest.mark.usefixtures("state")
def test_board_show_has_its_keys(invoke: Toolchain) -> None:
    shown = told(invoke("board", "show", "tablet", "--json")).document
    assert shown["devices"][1]["family"] == "apple7"
    assert shown["devices"][1]["plugin"] == "edge-metal 1.0" and "plugin" not in shown["devices"][0]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("command", ["tasks", "tune", "build"])
def test_help_and_refusals_name_it(invoke: Toolchain, command: str) -> None:
    shown = " ".join(told(invoke(command, "--help")).out.split())
    assert "cpu, opencl, cuda or vta; of plugins: metal; `toolchain board show" in shown
    typo = invoke("tasks", "small.onnx", "--board", "tablet", "--device", "metl")
    assert typo.code == 2 and typo.says(
        "it has: cpu, metal; the kinds of devices are: cpu, opencl, cuda, vta, metal"
    )


@pytest.mark.usefixtures("state")
def test_broken_it_fails_alone(
    invoke: Toolchain, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what needs it fails, and names the package."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "broken_npu.py").write_text("raise SystemExit('no licence')")
    plugins.install(tmp_path / "broken", monkeypatch, npu="broken_npu:NPU")
    (folder / "boards" / "npu").mkdir()
    (folder / "boards" / "npu" / "board.toml").write_text(TABLET.replace('kind = "metal"', 'kind = "npu"'))
    needs = invoke("board", "show", "npu")
    assert needs.code == 3 and needs.says("edge-npu, which cannot be loaded: no licence", "pip uninstall")
    assert "Traceback" not in needs.err
    told(invoke("board", "show", "tablet"))
    shutil.rmtree(folder / "boards" / "x86_64")  # the toy's, which is not installed
    assert "npu" in told(invoke("board", "list")).out
    assert "of plugins: metal, npu;" in " ".join(told(invoke("build", "--help")).out.split())
    there = {"kind": "npu", "names": ["x"], "problem": None, "details": []}
    assert DevicesThere.model_validate_json(json.dumps(there)).names == ("x",)


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_tasks_code_and_explain(invoke: Toolchain) -> None:
    task, *_others = told(invoke("tasks", *HERE, "--json")).document
    code = told(invoke("tasks", *HERE, "--show", task["id"], "--code", "--form", "metal")).out
    assert "kernel void" in code and "threadIdx" in code
    explained = told(invoke("tasks", *HERE, "--explain", task["id"], "--json")).document
    (kernel,) = explained["kernels"]
    assert kernel["private_bytes"] > 0 and kernel["vector_width"] == 4 and kernel["model"] is None
    modelled = told(invoke("tasks", *HERE, "--explain", task["id"], "--model"))
    assert "GUESSED MS" in modelled.out and "times are guesses" in modelled.err
    other = invoke("tasks", *HERE, "--show", task["id"], "--code", "--form", "opencl")
    assert other.code == 2 and other.says("--form opencl", "for another device, metal")


@pytest.mark.slow
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("layout", ["packed", "NHWC"])
def test_a_network_is_built_with_its_source(invoke: Toolchain, layout: str) -> None:
    with without_tensor_intrinsics():  # DLight's rule for real Metal imports them, which takes minutes here
        built = told(invoke("build", *HERE, "--layout", layout, "-o", "out", "--json")).document
    manifest = read_bundle(Path(built["bundle"])).manifest
    assert (manifest.device, manifest.runtime.devices) == ("metal:g13", ("metal",))
    sources = re.findall(rb"kernel void .*?\n}", Path(built["library"]).read_bytes(), re.DOTALL)
    assert sources and all(b"[[ buffer(0) ]]" in each and b" = " in each for each in sources)


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_its_model_is_a_runner(invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
    tuned = told(invoke("tune", *HERE, "--runner", "guess", "--trials", "3", "--json")).document
    assert tuned["failed"] == 0
    best = told(invoke("records", "best", "--json")).document
    assert best and {record["device"] for record in best} == {"metal:g13"}
    built = told(invoke("build", *HERE, "--require-tuned", "-o", "out", "--json")).document
    assert built["tasks"]["tuned"] == built["tasks"]["total"]
