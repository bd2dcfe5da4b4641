"""A network on an OpenCL device from the first command to the last, computed by PoCL on this host.

PoCL says whether the way is open and the numbers are right; what is fast on it is no matter of tests.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.backends.packed.single import Layer
from tests.cli.running import Toolchain
from tests.measuring.small_network import INPUT, network
from tests.opencl import networks
from tests.runtime import opencl_network
from toolchain.boards.inventory.lookup import find_board
from toolchain.bundles.read import read_bundle
from toolchain.errors import ToolchainError
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle
from toolchain.tuning.judging import judge, network_bench

pytestmark = pytest.mark.slow
_EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "convolution.py"


def write_convolution(path: Path) -> None:
    """Write the network of docs/architecture.md: one task."""
    subprocess.run([sys.executable, str(_EXAMPLE), str(path)], check=True)


@pytest.fixture(autouse=True)
def own_state(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))  # other tests have records, too
    return state


def test_a_network_is_built_run_verified_and_timed(invoke: Toolchain, folder: Path) -> None:
    onnx = network(folder / "small.onnx")
    built = invoke("build", onnx, "--board", "local", "--device", "opencl", "--check", "-o", "out", "--json")
    assert built.code == 0, built.err
    checked = built.document["check"]
    assert checked["passed"] and checked["ran_on"] == "opencl"
    bundle = built.document["bundle"]
    manifest = read_bundle(Path(bundle)).manifest
    assert (manifest.device, manifest.runtime.devices) == ("opencl", ("opencl",))
    assert manifest.target.definition["kind"] == "opencl"
    assert manifest.requires, "the host's code needs its CPU, as ever"

    verified = invoke("verify", bundle, "--board", "local", "--json")
    assert verified.code == 0 and verified.document["passed"], verified.err
    np.save(folder / "x.npy", np.full((1, 3, 16, 16), np.float32(0.5)))
    ran = invoke("run", bundle, "--board", "local", "--input", f"{INPUT}=x.npy", "-o", "y.npz")
    assert ran.code == 0 and np.load(folder / "y.npz")["prob"].sum() == pytest.approx(1, abs=1e-4)
    np.save(folder / "x.npy", np.full((1, 3, 16, 16), np.float32("nan")))
    invoke("run", bundle, "--board", "local", "--input", f"{INPUT}=x.npy", "-o", "y.npz")
    assert np.isnan(np.load(folder / "y.npz")["logits,1"]).all(), (
        "a ReLU does not hide that something is wrong"
    )
    timed = invoke("bench", bundle, "--board", "local", "--repeat", "3", "--profile", "--json").document
    assert timed["mean_ms"] > 0 and set(timed["copies_ms"]) == {"to_device", "from_device"}
    assert any("conv2d" in each["name"] for each in timed["operators"]), "functions have the network's names"

    found = read_bundle(Path(bundle))
    broken = opencl_network.changed(found.library, lambda code: code.replace(b"vstore4", b"vstorex"))
    with pytest.raises(ToolchainError, match=r"kernel_\w+ does not compile.* \(kernel_\w{32} is of \w+\)"):
        verify_bundle(dataclasses.replace(found, library=broken), OnBoard(find_board("local")))


@pytest.fixture
def short_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run judge in few rounds, and import TVM in one process for its candidates."""
    monkeypatch.setenv("TOOLCHAIN_JOBS", "1")
    monkeypatch.setattr(judge, "_ROUNDS", 2)
    monkeypatch.setattr(judge, "_LAST_ROUNDS", 2)
    monkeypatch.setattr(network_bench, "_SAMPLE_S", 0.02)


@pytest.mark.usefixtures("short_tuning")
def test_records_of_a_driver_are_taken_by_its_name(invoke: Toolchain, folder: Path) -> None:
    write_convolution(folder / "convolution.onnx")
    typed = ("convolution.onnx", "--board", "local", "--winograd", "off")
    tuned = invoke("tune", *typed, "--device", "opencl", "--trials", "2", "--json")
    assert tuned.code == 0 and tuned.document["failed"] == 0, tuned.out + tuned.err
    found = re.search(r"builds use them with --device '?(opencl:[^'\s]+)", tuned.err)
    assert found, tuned.err

    refused = invoke("build", *typed, "--device", "opencl", "--require-tuned", "-o", "out")
    assert refused.code == 1 and refused.says("have no record", found[1]), "a name is needed, and said"
    built = invoke("build", *typed, "--device", found[1], "--require-tuned", "-o", "out", "--json")
    assert built.code == 0 and built.document["tasks"]["tuned"] == 1, built.err
    assert built.document["device"] == found[1]
    assert read_bundle(Path(built.document["bundle"])).manifest.device == found[1]
    mali = invoke("build", *typed[:2], "rk3399", *typed[3:], "--device", "opencl", "-o", "out", "--json")
    assert mali.code == 0 and mali.document["tasks"]["tuned"] == 0, "no record of PoCL reaches a Mali"


@pytest.mark.usefixtures("short_tuning")
def test_a_search_by_metaschedule_is_measured_and_built(invoke: Toolchain, folder: Path) -> None:
    onnx.save(networks.layer(Layer(ci=8, co=16, size=(8, 8))), folder / "two.onnx")
    typed = ("two.onnx", "--board", "local", "--layout", "NHWC")
    (first, *_others) = invoke("tasks", *typed, "--device", "opencl", "--json").document
    assert "conv2d" in first["name"]
    tuned = invoke("tune", *typed, "--device", "opencl", "--trials", "5", "--json")
    assert tuned.code == 0 and tuned.document["failed"] == 0, tuned.out + tuned.err
    found = re.search(r"builds use them with --device '?(opencl:[^'\s]+)", tuned.err)
    assert found, tuned.err
    built = invoke("build", *typed, "--device", found[1], "--require-tuned", "-o", "out", "--json")
    assert built.code == 0, built.err
    verified = invoke("verify", built.document["bundle"], "--board", "local", "--json")
    assert verified.code == 0 and verified.document["passed"], verified.err
    mali = ("build", *typed[:2], "rk3399", *typed[3:], "--device", "opencl", "-o", "out", "--json")
    assert invoke(*mali).document["tasks"]["tuned"] == 0, "no record of PoCL reaches a Mali"


def test_what_the_generators_do_not_know_is_computed_on_the_device(invoke: Toolchain, folder: Path) -> None:
    nodes = [
        onnx.helper.make_node("TopK", ["a", "k"], ["v", "i"], axis=1),
        onnx.helper.make_node("CumSum", ["v", "ax"], ["sums"]),
        onnx.helper.make_node("Relu", ["sums"], ["largest"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "largest",
        [onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, (2, 40))],
        [onnx.helper.make_tensor_value_info("largest", onnx.TensorProto.FLOAT, (2, 3))],
        [onnx.numpy_helper.from_array(np.array([3]), "k"), onnx.numpy_helper.from_array(np.int64(1), "ax")],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "top.onnx")
    built = invoke("build", "top.onnx", "--board", "local", "--device", "opencl", "-o", "out", "--json")
    assert built.code == 0 and "dlight" in built.document["rules"].values(), built.err
    assert invoke("verify", built.document["bundle"], "--board", "local", "--json").document["passed"]


def test_the_source_for_the_driver_is_shown(invoke: Toolchain, folder: Path) -> None:
    write_convolution(folder / "convolution.onnx")
    typed = ("tasks", "convolution.onnx", "--board", "rk3399", "--winograd", "off")
    (task,) = invoke(*typed, "--device", "opencl", "--json").document
    code = ("--show", task["id"], "--code", "--form")
    shown = invoke(*typed, "--device", "opencl", *code, "opencl")
    assert shown.code == 0 and "__kernel void" in shown.out and "vload4" in shown.out
    assert "barrier" not in shown.out
    host = invoke(*typed, "--device", "opencl", *code, "assembly")
    assert host.code == 0 and "main_kernel" in host.out, "the host begins the kernel"
    refused = invoke(*typed, *code, "opencl")
    assert refused.code == 2 and refused.says("--form opencl", "--device opencl")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("--board", "pynq", "--device", "opencl"), ("board class pynq has no such device", "it has: cpu")),
        (
            ("--board", "x86_64", "--device", "opencl", "--dtype", "float16"),
            ("--dtype float16", "cl_khr_fp16"),
        ),
        (("--board", "rk3399", "--device", "opencl", "--layout", "NCHW"), ("--layout NCHW", "opencl")),
    ],
    ids=str,
)
def test_what_a_class_has_not_is_refused(
    invoke: Toolchain, folder: Path, typed: tuple[str, ...], says: tuple[str, ...]
) -> None:
    write_convolution(folder / "convolution.onnx")
    refused = invoke("build", "convolution.onnx", *typed, "-o", "out")
    assert refused.code == 2 and refused.says(*says)
    assert not (folder / "out").exists() or not list((folder / "out").iterdir())


def test_a_library_for_android_is_linked_and_passes_the_gate(invoke: Toolchain, folder: Path) -> None:
    write_convolution(folder / "convolution.onnx")
    built = invoke(
        *("build", "convolution.onnx", "--board", "android-arm64", "--device", "opencl"),
        *("-o", "out", "--json"),
    )
    assert built.code == 0, built.err
    manifest = read_bundle(Path(built.document["bundle"])).manifest
    assert (manifest.device, manifest.runtime.devices) == ("opencl", ("opencl",))
    assert manifest.target.triple == "aarch64-unknown-linux-android"
    assert b"// Function: kernel_" in Path(built.document["library"]).read_bytes()
