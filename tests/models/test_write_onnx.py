"""A network written as one ONNX file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.graphs import classifier
from toolchain.errors import ToolchainError, UsageError
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.write_onnx import export_model

OPTIONS = ModelOptions()


def test_export_of_a_zoo_network_has_its_hash(tmp_path: Path) -> None:
    path = tmp_path / "new" / "net.onnx"
    export_model("zoo:squeezenet_v1.1", OPTIONS, path)
    assert [file.name for file in path.parent.iterdir()] == ["net.onnx"]
    exported, original = load_model(str(path), OPTIONS), load_model("zoo:squeezenet_v1.1", OPTIONS)
    assert exported.sha256 == original.sha256 and exported.onnx == original.onnx


def test_export_fills_in_shapes_and_leaves_nothing_behind_when_it_cannot(tmp_path: Path) -> None:
    source = tmp_path / "net.onnx"
    source.write_bytes(classifier(shape=("n", 3, 8, 8)).SerializeToString())
    target = tmp_path / "out.onnx"
    with pytest.raises(UsageError, match="--batch N"):
        export_model(str(source), OPTIONS, target)
    with pytest.raises(UsageError, match="is a folder"):
        export_model(str(source), OPTIONS, tmp_path)
    with pytest.raises(ToolchainError, match="cannot write"):
        export_model(str(source), ModelOptions(batch=1), source / "out.onnx")
    assert sorted(tmp_path.iterdir()) == [source]
    export_model(str(source), ModelOptions(batch=2), target)
    assert load_model(str(target), OPTIONS).inputs[0].shape == (2, 3, 8, 8)
