"""`toolchain model`."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx

from tests.cli.conftest import Toolchain
from tests.models.graphs import classifier
from tests.models.test_cutting import detector
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
