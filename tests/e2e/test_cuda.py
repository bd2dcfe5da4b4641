"""Networks for NVIDIA's GPUs from the first command to the last, computed by the emulated driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.cli.running import Toolchain
from tests.e2e.test_opencl import write_convolution
from toolchain.boards.emulation import emulated
from toolchain.bundles.read import read_bundle
from toolchain.measuring import verify
from toolchain.measuring.deadlines import Deadline
from toolchain.measuring.execute import fetched_outputs
from toolchain.measuring.place import PlacedBundle
from toolchain.models.zoo import ZOO

pytestmark = pytest.mark.slow
BOARD = ("--board", "cuda-emulated")
IMAGE = "1,3,64,64"
IMAGES = {"inception_v3": "1,3,107,107", "resnet3d-18": "1,3,8,32,32"}
"""Small sizes of images that networks still take, where `IMAGE` is not one."""
IN_CI = ("mobilenet", "resnet-18")
ERRORS = {"vgg-16": 5e-4, "vgg-19": 5e-4}
"""Largest errors where float32 computes a network less exactly than to 1e-4.

For `IMAGE` onnxruntime's log-probabilities of VGG-16 are 1.2e-4 from those of float64.
"""


@pytest.fixture(autouse=True)
def board(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run an emulated board of class `cuda`."""
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))  # other tests have records, too
    assert state
    emulated.start("cuda", "process")
    yield
    emulated.stop("cuda-emulated")


def built(invoke: Toolchain, network: str, dtype: str = "float32") -> str:
    """Build a network of the zoo for small images; return the bundle."""
    code = ("--shape", f"data={IMAGES.get(network, IMAGE)}", "--dtype", dtype)
    made = invoke("build", f"zoo:{network}", *code, *BOARD, "--device", "cuda", "-o", "out", "--json")
    assert made.code == 0, made.err
    return str(made.document["bundle"])


@pytest.mark.parametrize(
    "network",
    [name if name in IN_CI else pytest.param(name, marks=pytest.mark.full) for name in ZOO],
)
def test_default_code_computes_what_onnxruntime_does(invoke: Toolchain, network: str) -> None:
    verified = invoke("verify", built(invoke, network), *BOARD, "--json", "--timeout", "600")
    assert verified.code == 0 and verified.document["passed"], verified.err
    (output,) = verified.document["outputs"]
    assert output["max_abs_error"] <= ERRORS.get(network, 1e-4)


@pytest.mark.parametrize(
    ("network", "dtype", "most"),
    [
        ("resnet-18", "float16", 2e-2),
        pytest.param("resnet-18", "tfloat32", 1e-2, marks=pytest.mark.full),
        pytest.param("mobilenet", "tfloat32", 1e-2, marks=pytest.mark.full),
    ],
)
def test_so_does_code_for_tensor_cores(invoke: Toolchain, network: str, dtype: str, most: float) -> None:
    verified = invoke("verify", built(invoke, network, dtype), *BOARD, "--json", "--timeout", "600")
    assert verified.code == 0 and verified.document["tolerance"] == most, verified.err
    (output,) = verified.document["outputs"]
    assert 1e-5 < output["max_rel_error"] < most, "factors were rounded"


def test_a_network_runs_and_is_timed_with_a_graph_and_without(
    invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = built(invoke, "squeezenet_v1.1")
    asked: list[object] = []

    def outputs(
        placed: PlacedBundle, inputs: Mapping[str, np.ndarray], limit: Deadline, options: Sequence[str]
    ) -> dict[str, np.ndarray]:
        asked.append(options)
        return fetched_outputs(placed, inputs, limit, options)

    monkeypatch.setattr(verify, "fetched_outputs", outputs)
    for graph in ("on", "off"):
        assert invoke("verify", bundle, *BOARD, "--graph", graph).code == 0
    assert asked == [["--warmup", "1"], []], "the graph itself is verified: the second inference launches it"
    found = read_bundle(Path(bundle))
    assert (found.manifest.device, found.manifest.emulated) == ("cuda:emulated", True)
    assert "emulated" in found.manifest.target.definition["keys"]

    bench = ("bench", bundle, *BOARD, "--json", "--repeat", "3")
    timed = invoke(*bench)
    assert timed.code == 0 and timed.document["graph"] and timed.document["emulated"], timed.err
    assert timed.document["mean_ms"] > 0 and set(timed.document["copies_ms"]) == {"to_device", "from_device"}
    assert "emulated of cuda-emulated is no GPU (cpu, CUDA 13.0)" in "".join(timed.document["warnings"])
    profiled = invoke(*bench, "--graph", "off", "--profile").document
    assert not profiled["graph"] and any("conv2d" in each["name"] for each in profiled["operators"])
    assert "as one graph; --graph off" in invoke(*bench[:4], "--repeat", "3").out

    ((name, image),) = found.sample.items()
    np.save(folder / "x.npy", image)
    for graph in ("on", "off"):
        ran = invoke("run", bundle, *BOARD, "--input", f"{name}=x.npy", "-o", "y.npz", "--graph", graph)
        assert ran.code == 0, ran.err
        (output,) = np.load(folder / "y.npz").values()
        (expected,) = found.expected.values()
        np.testing.assert_allclose(output, expected, atol=1e-5)

    cpu = invoke("build", "zoo:squeezenet_v1.1", "--board", "local", "-o", "cpu", "--json").document["bundle"]
    refused = invoke("verify", cpu, "--board", "local", "--graph", "off")
    assert refused.code == 2 and refused.says("--graph off: squeezenet_v1.1 was built for cpu, which has no")
    assert invoke("verify", bundle, *BOARD, "--graph", "maybe").code == 2
    refused = invoke("verify", bundle, "--board", "local")
    assert refused.code == 2 and refused.says("built for cuda:emulated", "toolchain board emulate start cuda")


def test_a_build_is_checked_on_this_host_without_a_gpu(invoke: Toolchain, folder: Path) -> None:
    write_convolution(folder / "convolution.onnx")
    typed = ("build", "convolution.onnx", "--board", "cuda", "--device", "cuda")
    checked = invoke(*typed, "--arch", "emulated", "--check", "-o", "out", "--json")
    assert checked.code == 0 and checked.document["check"]["ran_on"] == "cuda:emulated", checked.err
    plain = invoke(*typed, "--arch", "sm_90", "-o", "out")
    assert plain.code == 0 and "cuda for sm_90" in plain.out
    refused = invoke(*typed, "--arch", "sm_90", "--check", "-o", "out")
    assert refused.code == 2 and refused.says("board local has none", "NVIDIA's driver is not installed")
    refused = invoke(*typed, "--arch", "sm_199", "-o", "out")
    assert refused.code == 2 and refused.says("does not know the architecture sm_199", "it knows: sm_75, ")
    refused = invoke("verify", plain.out.split("bundle: ")[1].strip(), *BOARD)
    assert refused.code == 2 and refused.says("it has code for sm_90; build it with --arch emulated")


def test_without_the_compiler_it_is_said_what_to_install(
    toolchain: Toolchain, folder: Path, tmp_path: Path
) -> None:
    write_convolution(folder / "convolution.onnx")
    stub = tmp_path / "without" / "cuda"
    stub.mkdir(parents=True)
    (stub / "__init__.py").touch()  # in the place of the package whose `bindings.nvrtc` is the compiler
    typed = ("build", "convolution.onnx", "--board", "cuda", "--device", "cuda", "--engine", "host")
    places = {"PYTHONPATH": str(stub.parent), "TOOLCHAIN_CACHE_DIR": str(tmp_path / "cache")}
    refused = toolchain(*typed, "-o", "out", **places)
    assert refused.code == 3 and refused.says("NVRTC, the compiler of CUDA, is not installed", "make cuda")
    assert refused.says("--engine docker") and not (folder / "out").exists()
