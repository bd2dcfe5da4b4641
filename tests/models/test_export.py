"""A network written as one ONNX file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.models.graphs import classifier
from tests.models.quantising.affine.networks import mobile
from toolchain.errors import ToolchainError, UsageError
from toolchain.models.judging.reference import reference_outputs
from toolchain.models.load import export_model, load_model
from toolchain.models.options import ModelOptions
from toolchain.models.quantising.calibration import Tapped

OPTIONS = ModelOptions()


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_quantised_network_is_written_as_others_quantise(tmp_path: Path) -> None:
    onnx.save(mobile(), tmp_path / "float.onnx")
    made = export_model(str(tmp_path / "float.onnx"), ModelOptions(quantizer="mse"), tmp_path / "q.onnx")
    assert made is not None and made.counts["convolution"] == 9
    written = onnx.load(tmp_path / "q.onnx")
    onnx.checker.check_model(written, full_check=True)
    data = {"data": np.ones((1, 3, 12, 12), np.float32)}
    loaded = load_model(str(tmp_path / "float.onnx"), ModelOptions(quantizer="mse"))
    again = load_model(str(tmp_path / "q.onnx"), OPTIONS)
    assert again.quantised is None and again.rounding == loaded.rounding
    for expected in (reference_outputs(loaded, data), reference_outputs(again, data)):
        np.testing.assert_array_equal(
            Tapped(written, ["logits"], "q").values(data)["logits"], expected["logits"]
        )


def test_refuses_export_of_power_of_two_integers(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--quantizer power-of-two: its integers have no form") as caught:
        export_model("zoo:squeezenet_v1.1", ModelOptions(quantizer="power-of-two"), tmp_path / "q.onnx")
    assert "--quantizer mse|minmax|percentile" in caught.value.hint and not list(tmp_path.iterdir())
