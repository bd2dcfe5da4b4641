"""A network that a converter and a quantiser made, from its file to code (tests/data/tflite/README.md)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.models.rewrites.judge import assert_same
from tests.models.tflite.cases import CASES, Case
from tests.models.tflite.judge import computed, drawn, layers, reference
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

pytestmark = pytest.mark.slow

NETWORK = Path(__file__).parents[2] / "data/tflite/ds_cnn.int8.tflite"
SHAPE = (1, 49, 10, 1)
BUILT = ("ADD", "AVERAGE_POOL_2D", "CONCATENATION", "HARD_SWISH", "LOGISTIC", "MAX_POOL_2D", "MEAN", "PAD",
         "RESIZE_BILINEAR", "SOFTMAX", "SPACE_TO_DEPTH", "SPLIT", "STRIDED_SLICE", "TRANSPOSE")  # fmt: skip
"""Operators of which a quantised file is compiled here."""


@pytest.mark.parametrize("seed", range(3))
def test_each_layer_is_within_a_step_of_the_reference_kernels(seed: int) -> None:
    found = list(layers(NETWORK.read_bytes(), [drawn(SHAPE, "int8", seed)]))
    assert len(found) > 15
    for name, theirs, ours in found:
        assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1, name


@pytest.mark.parametrize("seed", range(8))
def test_steps_of_layers_become_two_at_most(seed: int) -> None:
    data, inputs = NETWORK.read_bytes(), [drawn(SHAPE, "int8", seed)]
    for ours, theirs in zip(computed(data, inputs), reference(data, inputs), strict=True):
        assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 2


def test_our_code_computes_what_the_reference_kernels_compute() -> None:
    model = load_model(str(NETWORK), ModelOptions())
    assert [(spec.shape, spec.dtype) for spec in model.inputs] == [(SHAPE, "int8")]
    (name,) = [spec.name for spec in model.inputs]
    assert_same(model, steps=1, inputs={name: drawn(SHAPE, "int8", 3)})


@pytest.mark.parametrize("case", [next(case for case in CASES if case.name == name) for name in BUILT])
def test_an_operator_is_built_as_it_is_judged(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(case.write("int8").finish())
    model = load_model(str(path), ModelOptions())
    inputs = {spec.name: drawn(spec.shape, spec.dtype, 1) for spec in model.inputs}
    assert_same(model, steps=1, inputs=inputs)
