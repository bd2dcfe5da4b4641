"""Small networks in integers, in Relax, with what onnxruntime makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from tests.models.quantising.networks import Block, network
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions

RESIDUAL = (Block(20, stride=2, shortcut="projection"), Block(20, shortcut="identity"))


def loaded(folder: Path, blocks: Sequence[Block] = RESIDUAL, batch: int = 1) -> Model:
    """Return a quantised network: a first convolution in floats, blocks, a global average, a product."""
    onnx.save(network(blocks, batch=batch), folder / "net.onnx")
    return load_model(str(folder / "net.onnx"), ModelOptions(quantizer="power-of-two"))


def expected(model: Model) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return a sample and the network's output for it."""
    sample = sample_inputs(model, 0)
    (output,) = reference_outputs(model, sample).values()
    return sample, output
