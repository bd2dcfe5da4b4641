"""Means of 8-bit integers have the reference kernels' steps: a softmax behind them would magnify others."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.models.rewrites.judge import assert_same
from tests.models.tflite.judge import computed, drawn, reference
from tests.models.tflite.writer import Writer
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

pytestmark = pytest.mark.slow

Rule = tuple[float, int]

SHAPES = [((2, 48, 6, 1), [2, 3]), ((2, 7, 7, 16), [1, 2]), ((2, 4, 4, 16), [1, 2]), ((40, 8), [1])]
RULES: list[tuple[Rule, Rule]] = [
    ((0.0194, -128), (0.01436, -128)),
    ((0.02, 3), (0.02, 3)),
    ((0.02, 3), (0.03, -10)),
    ((0.3, 5), (0.01, 0)),
]


def mean(shape: tuple[int, ...], axes: list[int], given: Rule, made: Rule, keeps: bool) -> bytes:
    """Return a MEAN."""
    file = Writer()
    kept = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
    left = kept if keeps else [extent for axis, extent in enumerate(shape) if axis not in axes]
    x = file.add(shape, "int8", scale=given[0], zero=given[1])
    y = file.add(left, "int8", scale=made[0], zero=made[1])
    along = file.constant(np.array(axes, np.int32))
    file.call("MEAN", [x, along], [y], "ReducerOptions", KeepDims=keeps)
    file.inputs, file.outputs = [x], [y]
    return file.finish()


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_a_mean_is_rounded_as_the_reference_kernels_round_it(
    shape: tuple[int, ...], axes: list[int], rules: tuple[Rule, Rule], keeps: bool
) -> None:
    file = mean(shape, axes, *rules, keeps)
    inputs = [drawn(shape, "int8", 3)]
    np.testing.assert_array_equal(computed(file, inputs)[0], reference(file, inputs)[0])


@pytest.mark.parametrize("activation", [0, 1, 3])
@pytest.mark.parametrize(("window", "padding"), [((2, 2), 1), ((3, 2), 0), ((1, 4), 0), ((5, 5), 1)])
def test_a_mean_of_windows_too(window: tuple[int, int], padding: int, activation: int) -> None:
    file, shape = Writer(), (1, 10, 12, 5)
    across = [
        math.ceil(n / 2) if padding == 0 else (n - w) // 2 + 1
        for n, w in zip(shape[1:3], window, strict=True)
    ]
    x = file.add(shape, "int8", scale=0.05, zero=-7)
    y = file.add((1, *across, 5), "int8", scale=0.05, zero=-7)
    options = {"FilterHeight": window[0], "FilterWidth": window[1], "StrideH": 2, "StrideW": 2}
    file.call(
        "AVERAGE_POOL_2D",
        [x],
        [y],
        "Pool2DOptions",
        Padding=padding,
        FusedActivationFunction=activation,
        **options,
    )
    file.inputs, file.outputs = [x], [y]
    inputs = [drawn(shape, "int8", 4)]
    data = file.finish()
    np.testing.assert_array_equal(computed(data, inputs)[0], reference(data, inputs)[0])


def classifier() -> bytes:
    """Return a mean of few values, a dense layer and a softmax of large logits."""
    file, random = Writer(), np.random.default_rng(5)
    x = file.add((1, 2, 3, 64), "int8", scale=0.0513, zero=-10)
    pooled = file.add((1, 64), "int8", scale=0.0397, zero=-10)
    axes = file.constant(np.array([1, 2], np.int32))
    weights = file.constant(random.integers(-127, 128, (10, 64)).astype(np.int8), scale=0.0213)
    bias = file.constant(random.integers(-900, 900, 10).astype(np.int32), scale=0.0397 * 0.0213)
    logits = file.add((1, 10), "int8", scale=0.411, zero=4)
    y = file.add((1, 10), "int8", scale=1 / 256, zero=-128)
    file.call("MEAN", [x, axes], [pooled], "ReducerOptions", KeepDims=False)
    file.call("FULLY_CONNECTED", [pooled, weights, bias], [logits], "FullyConnectedOptions")
    file.call("SOFTMAX", [logits], [y], "SoftmaxOptions", Beta=1.0)
    file.inputs, file.outputs = [x], [y]
    return file.finish()


@pytest.mark.parametrize("seed", range(20))
def test_a_softmax_behind_a_mean_has_the_reference_kernels_probabilities(seed: int) -> None:
    inputs = [drawn((1, 2, 3, 64), "int8", seed)]
    np.testing.assert_array_equal(computed(classifier(), inputs)[0], reference(classifier(), inputs)[0])


def test_our_code_computes_these_steps(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(classifier())
    model = load_model(str(path), ModelOptions())
    (name,) = (spec.name for spec in model.inputs)
    assert_same(model, inputs={name: drawn((1, 2, 3, 64), "int8", 1)})
