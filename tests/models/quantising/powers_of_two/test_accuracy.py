"""A trained network in integers tells as much as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.models.quantising.training import drawn, network, trained
from toolchain.models.quantising.calibration import Tapped
from toolchain.models.quantising.shift_quantiser import quantise

TESTED = 1000


def accuracy(model: onnx.ModelProto) -> float:
    images, labels = drawn(TESTED, 2)
    logits = Tapped(model, ["logits"], "shapes").values({"image": images})["logits"]
    return float((logits.argmax(axis=1) == labels).mean())


@pytest.mark.slow
def test_a_trained_network_keeps_its_accuracy(tmp_path: Path) -> None:
    model = onnx.shape_inference.infer_shapes(network(trained(), TESTED))
    before = accuracy(model)
    assert before > 0.9, "it learned"
    np.save(tmp_path / "images.npy", drawn(TESTED, 3)[0])
    made = quantise(model, "power-of-two", {"image": tmp_path / "images.npy"}, "shapes")
    assert len(made.layers) == 2
    assert accuracy(made.graph) > before - 0.01
    assert made.cost.top1 is not None and made.cost.top1 > 0.97
