"""`toolchain model`."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.cli.bad_models import MODELS
from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.measuring.small_network import INPUT
from tests.models.graphs import classifier
from tests.models.preparing.test_cutting import detector
from toolchain.models.zoo import ZOO


def test_list_names_the_zoo(invoke: Toolchain) -> None:
    rows = invoke("model", "list", "--json").document
    assert [row["name"] for row in rows] == [f"zoo:{name}" for name in ZOO]
    assert all(f"zoo:{name}" in invoke("model", "list").out for name in ZOO)


def test_an_exported_network_is_the_same_network(invoke: Toolchain, folder: Path) -> None:
    exported = invoke("model", "export", "squeezenet_v1.1", "-o", "mine.onnx", "--json").document
    assert exported == {"file": str(folder / "mine.onnx")}
    zoo = invoke("model", "inspect", "zoo:squeezenet_v1.1", "--json").document
    mine = invoke("model", "inspect", "mine.onnx", "--json").document
    for key in ("inputs", "outputs", "operators", "parameters", "flops", "sha256"):
        assert mine[key] == zoo[key]
    assert mine["sha256"] == hashlib.sha256((folder / "mine.onnx").read_bytes()).hexdigest()


def test_inspect_shows_inputs_and_operators(invoke: Toolchain) -> None:
    ran = invoke("model", "inspect", "mobilenet", "--batch", "1")
    assert ran.code == 0
    assert "data [1, 3, 224, 224] float32" in ran.out and "Conv" in ran.out and "1.14 GFLOP" in ran.out


def test_inspect_shows_a_network_whose_shapes_are_open(invoke: Toolchain, folder: Path) -> None:
    onnx.save(classifier(shape=("batch", 3, "height", None)), folder / "open.onnx")
    ran = invoke("model", "inspect", "open.onnx")
    assert ran.code == 0
    assert "input   data ['batch', 3, 'height', '?'] float32" in ran.out
    assert "FLOPs unknown" in ran.out and "Conv" in ran.out


def test_inspect_shows_where_a_network_can_be_cut(invoke: Toolchain, folder: Path) -> None:
    onnx.save(detector(), folder / "d.onnx")
    ran = invoke("model", "inspect", "d.onnx", "--shape", "size=1,4")
    assert "cannot be compiled: NonMaxSuppression (node 'nms') makes a tensor" in ran.out
    assert "can be compiled up to these tensors: --outputs boxes,scores,mean" in ran.out


@pytest.mark.parametrize(("model", "code", "says"), MODELS, ids=[row[0] for row in MODELS])
def test_models_that_cannot_be_used(
    invoke: Toolchain, files: Path, model: str, code: int, says: list[str]
) -> None:
    refused(invoke, files, code, says, "model", "inspect", model)


NAMES = [
    (["model", "inspect", "good.onnx", "--shape", f"{INPUT}=1,3,8,8"], ["--shape", INPUT]),
    (["model", "inspect", "good.onnx", "--shape", "x"], ["--shape x", "NAME=D,D"]),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("arguments", "says"), NAMES, ids=[" ".join(row[0]) for row in NAMES])
def test_names_and_options_that_are_none(
    invoke: Toolchain, files: Path, arguments: list[str], says: list[str]
) -> None:
    refused(invoke, files, 2, says, *arguments)


@pytest.mark.slow
def test_a_full_disk(files: Path) -> None:
    """A limit on the size of files stands for the disk: the same error of write(2), for root as well."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))

    before = [path for path in files.rglob("*") if path.is_file()]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "toolchain",
            "model",
            "export",
            "squeezenet_v1.1",
            "-o",
            "out/mine.onnx",
            "--json",
        ],
        cwd=files,
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert "cannot write out/mine.onnx: File too large" in error["message"] and error["hint"]
    assert [path for path in files.rglob("*") if path.is_file()] == before
