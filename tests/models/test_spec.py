"""Checking a user's arrays against the inputs of a network."""

from __future__ import annotations

import numpy as np
import pytest

from toolchain.errors import UsageError
from toolchain.models.spec import TensorSpec, check_inputs

SPECS = (TensorSpec("data", (1, 3), "float32"), TensorSpec("mask", (2,), "int64"))
GOOD = {"data": np.zeros((1, 3), np.float32), "mask": np.zeros(2, np.int64)}


def test_arrays_that_fit_pass() -> None:
    check_inputs(SPECS, GOOD)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dta": np.zeros(1)}, r"--input dta.*data \[1, 3\] float32; mask \[2\] int64"),
        ({"data": np.zeros((3, 1), np.float32)}, r"--input data: shape \[3, 1\] where \[1, 3\]"),
        ({"data": np.zeros((1, 3))}, "--input data: dtype float64 where float32"),
    ],
)
def test_refusal_names_misfit(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_inputs(SPECS, {**GOOD, **change})


def test_a_missing_input_is_named() -> None:
    with pytest.raises(UsageError, match=r"'mask' is missing \(add --input mask=FILE.npy\)"):
        check_inputs(SPECS, {"data": GOOD["data"]})
