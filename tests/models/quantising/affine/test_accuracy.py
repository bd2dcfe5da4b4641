"""A trained network in integers is as good as before, and as good as what onnxruntime makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from tests.models.quantising.training import drawn, network, trained
from toolchain.models.options import AFFINE
from toolchain.models.quantising.affine_quantiser import quantise
from toolchain.models.quantising.calibration import Tapped

TESTED, CALIBRATED = 2000, 100
POINT = 0.01


class Images(CalibrationDataReader):
    """The images that both quantisers calibrate with."""

    def __init__(self, images: np.ndarray) -> None:
        self._left = [{"image": images}]

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


def accuracy(model: onnx.ModelProto) -> float:
    images, labels = drawn(TESTED, 2)
    batches = images.reshape(-1, CALIBRATED, *images.shape[1:])
    tapped = Tapped(model, ["logits"], "shapes")
    logits = np.concatenate([tapped.values({"image": each})["logits"] for each in batches])
    return float((logits.argmax(axis=1) == labels).mean())


@pytest.mark.slow
def test_a_trained_network_keeps_its_accuracy(tmp_path: Path) -> None:
    model = onnx.shape_inference.infer_shapes(network(trained(), CALIBRATED))
    images, _labels = drawn(CALIBRATED, 3)
    np.save(tmp_path / "images.npy", images)
    onnx.save(model, tmp_path / "float.onnx")
    quantize_static(
        tmp_path / "float.onnx",
        tmp_path / "theirs.onnx",
        Images(images),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    before, theirs = accuracy(model), accuracy(onnx.load(tmp_path / "theirs.onnx"))
    made = {each: quantise(model, each, {"image": tmp_path / "images.npy"}, "shapes") for each in AFFINE}
    ours = {each: accuracy(quantised.graph) for each, quantised in made.items()}
    assert before > 0.9, "it learned"
    for quantizer, after in ours.items():
        assert after >= before - POINT, quantizer
        assert after >= theirs - POINT, quantizer
    counts = {"convolution": 3, "dense layer": 1, "average pool": 1}
    assert all(each.counts == counts and not each.left for each in made.values())
    cost = made["mse"].cost
    assert cost.images == CALIBRATED and not cost.random and not cost.warnings()
    assert cost.top1 is not None and cost.top1 >= 0.97
