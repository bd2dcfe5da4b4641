"""Choices and quotients of integers of every width on an OpenCL device, PoCL."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.models.bounds.cases import Case
from tests.opencl.computed import computed, expected

pytestmark = pytest.mark.slow

KINDS = ("i1", "u1", "i2", "u2", "i4", "i8", "f4", "?")
LENGTHS = (16, 37)
"""Of rows: whole vectors, and some left over."""


@pytest.mark.parametrize(
    "some", [pytest.param(True, id="some"), pytest.param(False, id="all", marks=pytest.mark.full)]
)
def test_where(some: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    cases = []
    for place, kind in enumerate(KINDS):
        for length in LENGTHS[place % 2 :][:1] if some else LENGTHS:
            x, y = (random.integers(0, 256, (4, length)).astype("u1").astype(kind) for _ in range(2))
            inputs = {"c": random.random((4, length)) < 0.5, "x": x, "other": y}
            both = [Case("Where", each, x.shape) for each in (inputs, {**inputs, "other": y[:1, :1]})]
            cases += both[place // 2 % 2 :][:1] if some else both
    same(cases, tmp_path)


def test_division_by_minus_one(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    divisors = np.array([3, -1, 5, -2, 7, -1])
    same(
        [
            Case(
                "Div",
                {"x": random.integers(-90, 90, (4, 6)).astype(kind), "d": divisors.astype(kind)},
                (4, 6),
            )
            for kind in ("i1", "i2", "i4", "i8")
        ],
        tmp_path,
    )


def same(cases: list[Case], folder: Path) -> None:
    for case, mine in zip(cases, computed(cases, "opencl", folder), strict=True):
        kind = case.inputs["x"].dtype
        # onnxruntime has no `Where` on numbers of 8 or 16 bits with a sign.
        right = np.where(*case.inputs.values()) if case.operator == "Where" else expected(case)
        np.testing.assert_array_equal(mine, right, err_msg=f"{case.name} {kind}{mine.shape}")
