"""`GridSample` on an OpenCL device, PoCL: near the images as onnxruntime, and far away what padding says."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.models.bounds.cases import Case
from tests.opencl.computed import computed, expected

pytestmark = pytest.mark.slow

PADDINGS = ("zeros", "border", "reflection")
# There onnxruntime converts what no integer is: at 3e9 it has 0, whatever padding says.
FAR = np.array([1e30, -1e30, np.inf, -np.inf, 3e9, -3e9, 2.0**31, 1e7], "f4")

# Every seventh case: each mode, each padding, corners or not.
EXTENTS = pytest.mark.parametrize(
    "step", [pytest.param(7, id="some"), pytest.param(1, id="all", marks=pytest.mark.full)]
)


def cases() -> list[Case]:
    random = np.random.default_rng(1)
    flat = {
        "x": random.standard_normal((2, 3, 4, 5)).astype("f4"),
        "g": random.uniform(-4, 4, (2, 6, 7, 2)).astype("f4"),
    }
    deep = {
        "x": random.standard_normal((1, 2, 3, 4, 5)).astype("f4"),
        "g": random.uniform(-4, 4, (1, 2, 3, 3, 3)).astype("f4"),
    }
    kinds = [(flat, mode) for mode in ("nearest", "linear", "cubic")]
    kinds += [(deep, mode) for mode in ("nearest", "linear")]
    return [
        Case(
            "GridSample",
            inputs,
            (*inputs["x"].shape[:2], *inputs["g"].shape[1:-1]),
            attributes={"mode": mode, "padding_mode": padding, "align_corners": corners},
        )
        for (inputs, mode), padding, corners in product(kinds, PADDINGS, (0, 1))
    ]


@EXTENTS
def test_samples_are_those_of_onnxruntime(step: int, tmp_path: Path) -> None:
    tried = cases()[::step]
    for case, mine in zip(tried, computed(tried, "opencl", tmp_path), strict=True):
        np.testing.assert_allclose(mine, expected(case), rtol=1e-4, atol=1e-5, err_msg=case.name)


@EXTENTS
def test_places_that_are_nowhere(step: int, tmp_path: Path) -> None:
    tried = []
    for case in cases()[::step]:
        places = np.resize(FAR, case.inputs["g"].shape)
        tried.append(replace(case, inputs={"x": np.full_like(case.inputs["x"], 7), "g": places}))
    for case, mine in zip(tried, computed(tried, "opencl", tmp_path), strict=True):
        value = 0 if case.attributes["padding_mode"] == "zeros" else 7
        np.testing.assert_allclose(mine, value, rtol=1e-5, err_msg=case.name)
