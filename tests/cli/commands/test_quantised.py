"""`--dtype int8`: a network in integers through the command line, on this host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.cli.running import Toolchain
from tests.models.quantising.networks import Block, network
from toolchain.bundles.read import read_bundle

BLOCKS = (Block(8, stride=2, shortcut="projection"), Block(8, shortcut="identity"))
COMMON = ("net.onnx", "--board", "local", "--dtype", "int8")


@pytest.fixture
def file(folder: Path) -> Path:
    onnx.save(network(BLOCKS), folder / "net.onnx")
    return folder / "net.onnx"


def built(invoke: Toolchain, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build and verify; return what the build said of the integers, and the comparison of the one output."""
    done = invoke("build", *COMMON, *options, "-o", "out", "--json")
    assert done.code == 0, done.err
    said = done.document
    manifest = read_bundle(Path(said["bundle"])).manifest
    assert manifest.dtype == "int8" and manifest.quantising is not None
    assert manifest.quantising.sqnr_db == said["quantising"]["sqnr_db"]
    assert manifest.quantising.quantizer == said["quantising"]["quantizer"]
    verified = invoke("verify", said["bundle"], "--board", "local", "--json")
    assert verified.code == 0, verified.err
    (output,) = verified.document["outputs"]
    return said["quantising"], output


@pytest.mark.slow
@pytest.mark.usefixtures("state", "file")
@pytest.mark.parametrize("quantizer", ["power-of-two", "global-scale"])
def test_shifts_are_built_and_verified_to_the_last_bit(invoke: Toolchain, quantizer: str) -> None:
    cost, output = built(invoke, "--quantizer", quantizer)
    assert cost["quantizer"] == quantizer
    assert len(cost["layers"]) == 5 and cost["left"] == {"fc": "a product of matrices"}
    assert output["max_abs_error"] < 1e-5, "one integer that is another moves an output by far more"


@pytest.mark.slow
@pytest.mark.usefixtures("state", "file")
@pytest.mark.parametrize("quantizer", ["", "minmax", "percentile"])
def test_scales_of_any_size_are_built_and_verified_to_the_last_step(
    invoke: Toolchain, quantizer: str
) -> None:
    cost, output = built(invoke, *(["--quantizer", quantizer] if quantizer else []))
    assert cost["quantizer"] == (quantizer or "mse"), "the default on CPUs"
    assert cost["integers"] == {"convolution": 6, "dense layer": 1, "addition": 2, "average pool": 1}
    assert cost["left"] == {} and len(cost["layers"]) == 10
    assert output["compared_as"] == "steps" and output["values_off"] == 0
    (bundle,) = Path("out").glob("*.bundle")
    tasks = read_bundle(bundle).manifest.tasks
    layers = {task.products for task in tasks if "conv" in task.name or "matmul" in task.name}
    assert layers and layers <= {"avx512_vnni", "avx_vnni", "pmaddwd", "asimddp", "smull", "float32"}
    assert layers != {"float32"} and "float32" in {task.products for task in tasks}
    profiled = invoke("bench", bundle, "--board", "local", "--repeat", 3, "--profile", "--json").document
    assert {each["products"] for each in profiled["operators"]} >= layers
    for each in profiled["operators"]:
        peak = profiled["peaks"].get(each["products"])
        assert each["share"] == (pytest.approx(each["gflops"] / peak) if peak and each["gflops"] else None)


@pytest.mark.slow
@pytest.mark.usefixtures("state", "file")
def test_accuracy_loss_is_printed(invoke: Toolchain, folder: Path) -> None:
    ran = invoke("build", *COMMON, "-o", "out", "-v")
    said = ran.out
    assert "scales: mse, calibrated with 4 random inputs" in said
    assert "integers: 6 convolutions, 1 dense layer, 2 additions, 1 average pool; output SQNR" in said
    assert ran.says("warning: calibrated and judged by 4 random inputs: the scales will not fit real data")
    assert ran.says("give --calibrate NAME=FILE.npy") and "in floats" not in said
    assert "SQNR DB" in said and "b1.conv2" in said
    np.save(folder / "images.npy", np.random.default_rng(0).random((7, 3, 9, 9), np.float32))
    again = invoke("build", *COMMON, "--calibrate", "data=images.npy", "-o", "out")
    assert "scales: mse, calibrated with 7 images" in again.out and "random" not in again.out + again.err


@pytest.mark.slow
@pytest.mark.usefixtures("state", "file")
def test_tasks_tune_and_build_see_one_graph(invoke: Toolchain) -> None:
    listed = [task["id"] for task in invoke("tasks", *COMMON, "--json").document]
    planned = [task["id"] for task in invoke("tune", *COMMON, "--dry-run", "--json").document["tasks"]]
    built = read_bundle(Path(invoke("build", *COMMON, "-o", "out", "--json").document["bundle"]))
    assert listed == planned == [task.id for task in built.manifest.tasks] != []


@pytest.mark.usefixtures("state", "file")
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--quantizer", "mse"], ["--quantizer: applies only to integers", "add --dtype int8"]),
        (["--calibrate", "data=x.npy"], ["--calibrate: applies only to integers"]),
        (["--dtype", "int8", "--calibrate", "x.npy"], ["--calibrate x.npy: not NAME=FILE.npy"]),
        (["--dtype", "int8", "--calibrate", "data=x.npy"], ["data", "x.npy: no such file"]),
        (["--dtype", "int8", "--calibrate", "data=nan.npy"], ["nan.npy holds NaN or infinity in 1 of 243"]),
        (["--dtype", "int8", "--calibrate", "data=wide.npy"], ["float32[1, 3, 9, 8]", "[1, 3, 9, 9]"]),
        (["--dtype", "int8", "--quantizer", "kl"], ["--quantizer", "kl"]),
        (
            ["--device", "vta", "--dtype", "int8", "--quantizer", "mse"],
            ["--quantizer mse: --device vta cannot compute with its scales", "use --quantizer power-of-two"],
        ),
    ],
)
def test_refuses_impossible_quantising_options(
    invoke: Toolchain, folder: Path, typed: list[str], said: list[str]
) -> None:
    image = np.zeros((1, 3, 9, 9), np.float32)
    image[0, 0, 0, 0] = np.nan
    np.save(folder / "nan.npy", image)
    np.save(folder / "wide.npy", image[..., :8])
    ran = invoke("tasks", "net.onnx", "--board", "local", *typed)
    assert ran.code == 2 and ran.says(*said), ran.err
