"""`--dtype int8`: a network in integers through the command line, on this host."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.slow
@pytest.mark.usefixtures("state", "file")
@pytest.mark.parametrize("quantizer", ["mse", "global-scale"])
def test_it_is_built_and_verified_to_the_last_bit(invoke: Toolchain, quantizer: str) -> None:
    built = invoke("build", *COMMON, "--quantizer", quantizer, "-o", "out", "--json")
    assert built.code == 0, built.err
    document = built.document
    cost = document["quantising"]
    assert len(cost["layers"]) == 5 and cost["left"] == {"fc": "a product of matrices"}
    manifest = read_bundle(Path(document["bundle"])).manifest
    assert manifest.dtype == "int8" and manifest.quantising is not None
    assert manifest.quantising.quantizer == quantizer
    assert manifest.quantising.sqnr_db == cost["sqnr_db"]
    verified = invoke("verify", document["bundle"], "--board", "local", "--json")
    assert verified.code == 0, verified.err
    (output,) = verified.document["outputs"]
    assert output["max_abs_error"] < 1e-5, "one integer that is another moves an output by far more"


@pytest.mark.slow
@pytest.mark.usefixtures("state", "file")
def test_what_it_cost_is_printed(invoke: Toolchain) -> None:
    ran = invoke("build", *COMMON, "-o", "out", "-v")
    said = ran.out
    assert "integers: 5 convolutions; output SQNR" in said and "over 4 random inputs" in said
    assert ran.says("warning: judged by 4 random inputs", "--calibrate NAME=FILE.npy")
    assert "in floats: fc: a product of matrices" in said
    assert "SQNR DB" in said and "b1.conv2" in said


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
        (["--dtype", "int8", "--quantizer", "kl"], ["--quantizer", "kl"]),
    ],
)
def test_what_cannot_be(invoke: Toolchain, folder: Path, typed: list[str], said: list[str]) -> None:
    image = np.zeros((1, 3, 9, 9), np.float32)
    image[0, 0, 0, 0] = np.nan
    np.save(folder / "nan.npy", image)
    ran = invoke("tasks", "net.onnx", "--board", "local", *typed)
    assert ran.code == 2 and ran.says(*said), ran.err
