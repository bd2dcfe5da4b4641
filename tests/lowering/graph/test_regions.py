"""`RoiAlign` on a CPU and on an OpenCL device, PoCL, against onnxruntime."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from tests.models.bounds.cases import Case
from tests.opencl.computed import computed, expected

pytestmark = pytest.mark.slow


def case(mode: str, points: int, scale: float) -> Case:
    """Return regions of every size, one of them empty, some of them partly beyond the images."""
    random = np.random.default_rng(1)
    begin, sides = random.uniform(-4, 9, (6, 2)), random.uniform(0, 14, (6, 2))
    sides[0] = 0
    inputs = {
        "x": random.standard_normal((2, 3, 11, 9)).astype("f4"),
        "regions": (np.concatenate([begin, begin + sides], 1) / scale).astype("f4"),
        "image": np.array([1, 0, 1, 1, 0, 0]),
    }
    attributes = {
        "output_height": 3,
        "output_width": 5,
        "sampling_ratio": points,
        "spatial_scale": scale,
        "coordinate_transformation_mode": mode,
    }
    return Case("RoiAlign", inputs, (6, 3, 3, 5), attributes=attributes)


@pytest.mark.parametrize("device", ["cpu", "opencl"])
def test_means_are_those_of_onnxruntime(device: str, tmp_path: Path) -> None:
    cases = [
        case(*own) for own in itertools.product(("half_pixel", "output_half_pixel"), (0, 2), (1.0, 0.25))
    ]
    for each, mine in zip(cases, computed(cases, device, tmp_path), strict=True):
        np.testing.assert_allclose(mine, expected(each), rtol=1e-5, atol=1e-6, err_msg=each.name)
