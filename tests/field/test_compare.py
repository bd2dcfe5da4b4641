"""Outputs are compared on the board as `measuring.numerics` compares them on the host."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.field.program import Checks
from toolchain.measuring.numerics import Tolerance, output_error

pytestmark = pytest.mark.slow  # the program may have to be compiled

DTYPES = st.sampled_from(
    [
        "float16",
        "float32",
        "float64",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "bool",
    ]
)
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arrays")


def board(checks: Checks, folder: Path, way: str, allowed: Tolerance, y: np.ndarray, r: np.ndarray) -> Any:
    for name, array in (("y", y), ("r", r)):
        np.save(folder / f"{name}.npy", array)
    step = "" if allowed.step is None else repr(allowed.step)
    values = "" if allowed.values is None else allowed.values
    paths = (str(folder / "y.npy"), str(folder / "r.npy"))
    parts = [word for axis, ends in sorted(allowed.ends.items()) for word in (axis, len(ends), *ends)]
    return checks.ask("compare", way, round(allowed.number * 1e9), step, values, *paths, *parts)


def agree(
    checks: Checks, folder: Path, allowed: Tolerance, y: np.ndarray, r: np.ndarray, softmax: bool
) -> bool:
    """Compare on both sides; return whether it passed."""
    with np.errstate(over="ignore", invalid="ignore"):
        host = output_error("y", y, r, allowed, softmax)
    ours = board(checks, folder, host.compared_as, allowed, y, r)
    assert ours["passed"] == host.passed, (host, ours)
    assert (ours["problem"] == "") == host.passed
    error = host.max_rel_error if allowed.step is None else host.error_steps
    if ours["error_ppb"] is not None:
        assert error is not None
        assert math.isclose(ours["error_ppb"], min(error * 1e9, 2**53), rel_tol=1e-9, abs_tol=1), (host, ours)
    else:
        assert not host.passed
    return host.passed


@given(
    data=st.data(), dtype=DTYPES, shape=SHAPES, softmax=st.booleans(), steps=st.booleans(), near=st.booleans()
)
def test_as_on_the_host(
    checks: Checks,
    folder: Path,
    data: st.DataObject,
    dtype: str,
    shape: Any,
    softmax: bool,
    steps: bool,
    near: bool,
) -> None:
    elements = st.integers(0, 3) if dtype == "bool" else None
    draw = (
        arrays.arrays(dtype, shape) if elements is None else arrays.arrays("uint8", shape, elements=elements)
    )
    r = data.draw(draw).astype(dtype)
    y = data.draw(draw).astype(dtype)
    if near and dtype != "bool":
        with np.errstate(all="ignore"):
            y = (r + r * np.asarray(1e-3)).astype(dtype)
    step = data.draw(st.sampled_from([1.0, 0.00390625, 1e-5, 3.7])) if steps else None
    values = data.draw(st.none() | st.integers(1, 5)) if steps else None
    number = data.draw(st.sampled_from([1e-3, 1e-2, 1.0, 2.0]))
    by_parts = r.size > 0 and not steps and not softmax and np.issubdtype(r.dtype, np.inexact)
    ends = {
        axis: (*sorted(inner), extent)
        for axis, extent in enumerate(r.shape)
        if by_parts
        and (inner := data.draw(st.sets(st.integers(1, extent - 1)) if extent > 1 else st.just(set())))
    }
    agree(checks, folder, Tolerance(number, step, values, ends=ends), y, r, softmax)


FLOATS = np.array([[1, 2, 3, 4]], "float32")


def off(by: float, at: int = 0, of: np.ndarray = FLOATS) -> np.ndarray:
    changed = of.copy()
    changed.flat[at] += by
    return changed


@pytest.mark.parametrize(
    ("y", "r", "allowed", "softmax", "passes"),
    [
        (FLOATS, FLOATS, Tolerance(1e-3), False, True),
        (off(0.0039), FLOATS, Tolerance(1e-3), False, True),
        (off(0.0041), FLOATS, Tolerance(1e-3), False, False),
        (off(math.nan), FLOATS, Tolerance(1.0), False, False),
        (off(math.inf), FLOATS, Tolerance(1.0), False, False),
        (FLOATS, off(math.nan), Tolerance(1.0), False, False),
        (FLOATS, np.zeros_like(FLOATS), Tolerance(1.0), False, False),
        (FLOATS.astype("float64"), FLOATS, Tolerance(1.0), False, False),
        (FLOATS.reshape(4), FLOATS, Tolerance(1.0), False, False),
        # Small among large ones: seen as logarithms alone.
        (np.array([[1, 1e-9]], "float32"), np.array([[1, 1e-5]], "float32"), Tolerance(1e-3), False, True),
        (np.array([[1, 1e-9]], "float32"), np.array([[1, 1e-5]], "float32"), Tolerance(1e-3), True, False),
        # A common factor, and a probability below 0: not seen as logarithms.
        (np.array([[2, 2e-9]], "float32"), np.array([[1, 1e-9]], "float32"), Tolerance(1e-3), True, False),
        (np.array([[1, -1]], "float32"), np.array([[1, 0]], "float32"), Tolerance(1e-3), True, False),
        # A masked class.
        (np.array([[0.51, 0.49, 0]]), np.array([[0.5, 0.5, 0]]), Tolerance(1e-3), True, False),
        (np.array([[1, 1e-20]]), np.array([[1, 0.0]]), Tolerance(1e-3), True, False),
        (np.array([[1, 1e-31]]), np.array([[1, 0.0]]), Tolerance(1e-3), True, True),
        # Neighbours in float16, where numbers are few: rounding alone, which is no wrong logit.
        (np.array([[1, 1.2e-7]], "float16"), np.array([[1, 6e-8]], "float16"), Tolerance(2e-2), True, True),
        (np.array([[1, 6e-4]], "float16"), np.array([[1, 9e-4]], "float16"), Tolerance(2e-2), True, False),
        (np.array([2**53 + 1]), np.array([2**53]), Tolerance(1.0), False, False),
        (np.array([7]), np.array([7]), Tolerance(1e-3), False, True),
        (np.array([3, 5], "int8"), np.array([3, 4], "int8"), Tolerance(1.0, 1.0, 1), False, True),
        (np.array([4, 5], "int8"), np.array([3, 4], "int8"), Tolerance(1.0, 1.0, 1), False, False),
        (np.array([3, 6], "int8"), np.array([3, 4], "int8"), Tolerance(1.0, 1.0, 1), False, False),
        (np.zeros((0, 3), "float32"), np.zeros((0, 3), "float32"), Tolerance(1e-3), True, True),
    ],
)
def test_examples(
    checks: Checks,
    folder: Path,
    y: np.ndarray,
    r: np.ndarray,
    allowed: Tolerance,
    softmax: bool,
    passes: bool,
) -> None:
    assert agree(checks, folder, allowed, y, r, softmax) == passes


BOXES = np.array([[640, 320, 0.5, 0.25]], "float32")


@pytest.mark.parametrize(
    ("y", "r", "ends", "passes"),
    [
        (off(0.4, 2, BOXES), BOXES, {}, True),
        (off(0.4, 2, BOXES), BOXES, {1: (2, 4)}, False),
        (off(0.4, 1, BOXES), BOXES, {1: (2, 4)}, True),
        (off(4e-4, 2, BOXES), BOXES, {1: (2, 4)}, True),
        (off(6e-5, 2, BOXES * 0), BOXES * 0, {1: (2, 4)}, False),
        (np.array([[640, 6e-5]], "f4"), np.array([[640, 0]], "f4"), {1: (1, 2)}, True),
        (np.array([[640, 1e-3]], "f4"), np.array([[640, 0]], "f4"), {1: (1, 2)}, False),
        (off(0.4, 3, BOXES.T), BOXES.T, {0: (1, 3, 4)}, False),
        (off(0.4, 3, BOXES.reshape(2, 2)), BOXES.reshape(2, 2), {0: (1, 2), 1: (1, 2)}, False),
    ],
)
def test_parts(
    checks: Checks, folder: Path, y: np.ndarray, r: np.ndarray, ends: dict[int, tuple[int, ...]], passes: bool
) -> None:
    assert agree(checks, folder, Tolerance(1e-3, ends=ends), y, r, False) == passes


@pytest.mark.parametrize("ends", [{1: (2, 5)}, {2: (1, 2)}])
def test_parts_of_another_shape_pass_nothing(
    checks: Checks, folder: Path, ends: dict[int, tuple[int, ...]]
) -> None:
    answer = board(checks, folder, "values", Tolerance(1.0, ends=ends), BOXES, BOXES)
    assert not answer["passed"] and "parts" in answer["problem"]


@pytest.mark.parametrize(
    ("way", "dtype"), [("values", "int8"), ("log-probabilities", "int64"), ("equal", "float32")]
)
def test_a_way_that_does_not_fit_the_type(checks: Checks, folder: Path, way: str, dtype: str) -> None:
    array = np.ones(2, dtype)
    answer = board(checks, folder, way, Tolerance(1.0), array, array)
    assert not answer["passed"]
    assert "can't be compared" in answer["problem"]
