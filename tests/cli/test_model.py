"""`toolchain model`."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.cli.conftest import Toolchain
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
