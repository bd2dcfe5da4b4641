"""The one number that says whether a board computes the network."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from toolchain.measuring.numerics import OutputDeviation, Tolerance, compare, output_error

finite = st.floats(-1e3, 1e3, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3)
arrays = hnp.arrays(np.float32, hnp.array_shapes(max_dims=4, max_side=5), elements=finite)
TOLERANCE = 1e-3


def error(y: np.ndarray | None, r: np.ndarray, softmax: bool = False) -> OutputDeviation:
    return output_error("out", y, r, Tolerance(TOLERANCE), softmax)


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities


@given(arrays, st.booleans())
def test_equal_arrays_have_no_error(r: np.ndarray, probabilities: bool) -> None:
    found = error(r.copy(), r, probabilities)
    assert (found.passed, found.max_abs_error, found.max_rel_error) == (True, 0.0, 0.0)


@given(arrays, st.data())
def test_error_matches_its_definition(r: np.ndarray, data: st.DataObject) -> None:
    y = data.draw(hnp.arrays(np.float32, r.shape, elements=finite))
    found = error(y, r)
    if not r.any() and y.any():
        assert (found.passed, found.problem) == (False, "the reference is zero everywhere")
        return
    expected = np.abs(y.astype(float) - r).max() / max(np.abs(r.astype(float)).max(), 1e-300)
    assert found.max_rel_error == pytest.approx(expected)
    assert found.passed == (expected <= TOLERANCE)
    assert found.worst_index is not None
    worst = tuple(found.worst_index)
    assert abs(float(y[worst]) - float(r[worst])) == found.max_abs_error
    assert (found.value, found.expected) == (float(y[worst]), float(r[worst]))


@given(arrays, arrays, st.sampled_from([2.0**-20, 0.5, -1.0, 4.0, 2.0**20]))
def test_the_error_does_not_depend_on_the_unit(r: np.ndarray, y: np.ndarray, unit: float) -> None:
    y = np.resize(y, r.shape).astype(np.float32)
    plain, scaled = error(y, r), error(y * np.float32(unit), r * np.float32(unit))
    assert scaled.max_rel_error == plain.max_rel_error
    assert scaled.passed == plain.passed


@given(st.integers(0, 7), st.integers(0, 2**32 - 1))
def test_a_channel_of_the_wrong_sign_fails(channel: int, seed: int) -> None:
    r = np.random.default_rng(seed).standard_normal((1, 8, 4, 4)).astype(np.float32)
    y = r.copy()
    y[:, channel] *= -1
    found = error(y, r)
    assert not found.passed
    assert found.worst_index is not None
    assert found.worst_index[1] == channel


@given(arrays, st.sampled_from([np.nan, np.inf, -np.inf]), st.data())
def test_one_value_that_is_not_finite_fails_on_either_side(
    r: np.ndarray, value: float, data: st.DataObject
) -> None:
    bad = r.copy()
    index = tuple(data.draw(st.integers(0, side - 1)) for side in r.shape)
    bad[index] = value
    for found in (error(bad, r), error(r, bad), error(bad, bad), error(bad, r, softmax=True)):
        assert not found.passed
        assert found.max_rel_error is None
        assert found.worst_index == list(index)


@given(st.integers(0, 2**32 - 1))
def test_a_softmax_hides_no_wrong_logits(seed: int) -> None:
    logits = np.random.default_rng(seed).standard_normal((1, 100)) * 3
    logits[0, 7] = 40.0  # all the others together are below 1e-14
    wrong = logits.copy()
    wrong[0, 8:] = wrong[0, 8:][::-1]
    r, y = softmax(logits).astype(np.float32), softmax(wrong).astype(np.float32)
    assert error(y, r).passed, "as plain values the error is hidden"
    assert not error(y, r, softmax=True).passed


@given(hnp.arrays(np.float64, (2, 10), elements=st.floats(-20, 20)), st.floats(-50, 50))
def test_log_probabilities_are_the_centred_logits(logits: np.ndarray, shift: float) -> None:
    r = softmax(logits)
    assert error(softmax(logits + shift), r, softmax=True).max_abs_error == pytest.approx(0, abs=1e-9)
    y = logits.copy()
    y[1, 3] += 1.0
    found = error(softmax(y), r, softmax=True)
    assert found.max_abs_error == pytest.approx(0.9, rel=1e-6)  # 1 less its share of the mean
    assert found.worst_index == [1, 3]


def test_tiny_probabilities_say_how_far_logits_reach() -> None:
    r = np.array([[0.9, 0.1, 1e-33]])
    assert error(softmax(np.log(r) + np.array([0.01, 0, 0])), r, softmax=True).passed
    assert not error(softmax(np.log(r[:, :2]) + np.array([0.01, 0])), r[:, :2], softmax=True).passed


def test_probabilities_of_zero_are_compared_as_1e_30() -> None:
    r = np.array([[1.0, 0.0, 0.0]], np.float32)
    assert error(np.array([[1.0, 1e-35, 0.0]], np.float32), r, softmax=True).passed
    assert not error(np.array([[1.0, 1e-20, 0.0]], np.float32), r, softmax=True).passed


@given(hnp.arrays(np.float64, (2, 10), elements=st.floats(-20, 20)), st.sampled_from([0.5, 1.1, 3.0]))
def test_a_softmax_that_forgot_to_divide_fails(logits: np.ndarray, factor: float) -> None:
    r = softmax(logits)
    assert not error(factor * r, r, softmax=True).passed


@pytest.mark.parametrize("off", [0.05, 0.005])
def test_a_masked_class_hides_no_error_of_the_others(off: float) -> None:
    random = np.random.default_rng(0)
    r = softmax(random.standard_normal((1, 100)))
    r[0, 7] = 0
    y = r * (1 + off * random.choice([-1, 1], r.shape))
    assert not error(y, r, softmax=True).passed
    assert error(r * (1 + off / 100), r, softmax=True).passed


def test_equal_classes_may_differ_by_rounding() -> None:
    r = np.full((1, 3), 1 / 3, np.float32)
    assert error(np.nextafter(r, np.float32([0, 1, 1])), r, softmax=True).passed
    assert not error(r * np.float32([1.001, 1, 1]), r, softmax=True).passed


def test_a_probability_below_0_fails() -> None:
    r = np.array([[1.0, 0.0, 1e-12]])
    assert not error(np.array([[1.0, -1.0, 1e-12]]), r, softmax=True).passed


@given(hnp.arrays(np.float64, (2, 10), elements=st.floats(-20, 20)), st.integers(0, 2**32 - 1))
def test_logits_that_may_be_off_are_judged_by_their_logarithms(logits: np.ndarray, seed: int) -> None:
    scale = np.abs(logits - logits.mean(-1, keepdims=True)).max()
    off = np.random.default_rng(seed).uniform(-1, 1, logits.shape) * scale * 4e-4
    assert error(softmax(logits + off), softmax(logits), softmax=True).passed or scale < 1e-6


@given(hnp.arrays(np.int64, (3, 4)), st.integers(0, 2), st.integers(0, 3))
def test_integers_must_be_equal(r: np.ndarray, i: int, j: int) -> None:
    assert error(r.copy(), r).passed
    y = r.copy()
    y[i, j] ^= 1  # float64 cannot tell such neighbours above 2^53
    found = error(y, r)
    assert not found.passed
    assert found.worst_index == [i, j]
    assert found.max_abs_error is not None
    assert found.max_abs_error >= 1
    assert found.compared_as == "equal"


def test_booleans_must_be_equal() -> None:
    r = np.array([True, False])
    assert error(r, r).passed
    assert error(~r, r).worst_index == [0]


@pytest.mark.parametrize(
    ("y", "problem"),
    [
        (None, "no such output"),
        (np.zeros((2, 1), np.float32), r"shape \[2, 1\] where \[1, 2\]"),
        (np.zeros((1, 2), np.float64), "dtype float64 where float32"),
    ],
)
def test_fails_on_wrong_shape_dtype_or_missing_output(y: np.ndarray | None, problem: str) -> None:
    found = error(y, np.ones((1, 2), np.float32))
    assert not found.passed
    assert found.problem is not None
    assert re.search(problem, found.problem)


def test_empty_outputs_and_scalars_compare() -> None:
    assert error(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).passed
    assert error(np.float32(1).reshape(()), np.float32(1).reshape(())).passed
    assert not error(np.float32(2).reshape(()), np.float32(1).reshape(())).passed


def test_all_outputs_must_pass_and_the_worst_is_named() -> None:
    one = np.ones(3, np.float32)
    found = compare(
        {"a": one, "b": one * 2, "c": one},
        {"a": one, "b": one, "c": one},
        dict.fromkeys("abc", Tolerance(0.1)),
    )
    assert not found.passed
    assert found.worst.name == "b"
    assert [output.passed for output in found.outputs] == [True, False, True]
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["outputs"][1]["max_rel_error"] == 1.0
    assert not compare({}, {}, {}).passed, "nothing compared is nothing proved"


def test_non_finite_values_become_json_null() -> None:
    nan = np.array([np.nan], np.float32)
    json.dumps(compare({"a": nan}, {"a": nan}, {"a": Tolerance(1.0)}).to_json(), allow_nan=False)


STEPS = Tolerance(1.0, step=0.25, values=2, reason="a last rounding may meet a half")


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize(
    ("changed", "passed"), [([], True), ([1, -1], True), ([1, 1, -1], False), ([2], False)]
)
def test_a_few_values_may_be_a_step_off(changed: list[int], passed: bool, dtype: str) -> None:
    allowed = STEPS if dtype == "float32" else Tolerance(1.0, step=1.0, values=2)
    size = allowed.step or 0.0
    r = (np.arange(8, 108) * size).astype(dtype)
    y = r.copy()
    for place, steps in enumerate(changed):
        y[place] = r[place] + steps * size
    found = output_error("out", y, r, allowed)
    assert found.passed is passed
    assert found.values_off == len(changed)
    assert found.error_steps == max(map(abs, changed), default=0)
    assert found.compared_as == "steps"
    assert (found.max_rel_error or 0) <= found.tolerance or not passed


def test_steps_of_an_output_that_is_zero_everywhere_are_counted() -> None:
    r = np.zeros(100, np.float32)
    y = r.copy()
    y[3] = 0.25
    assert output_error("out", y, r, STEPS).passed
    y[3] = 0.5
    found = output_error("out", y, r, STEPS)
    assert not found.passed and found.error_steps == 2


BOXES_AND_SCORES = np.concatenate(
    [np.linspace(1, 640, 40).reshape(1, 4, 10), np.linspace(0.03, 0.48, 40).reshape(1, 4, 10)], axis=1
).astype(np.float32)
BY_PARTS = Tolerance(TOLERANCE, ends={1: (4, 8)})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda scores: np.zeros_like(scores),
        lambda scores: scores + 0.3,
        lambda scores: scores[:, ::-1],
        lambda scores: scores[..., ::-1],
        lambda scores: np.full_like(scores, 0.5),
    ],
    ids=["zeros", "offset", "classes", "anchors", "constant"],
)
def test_a_small_part_is_not_hidden_by_a_large_one(wrong: Any) -> None:
    y = BOXES_AND_SCORES.copy()
    y[:, 4:] = wrong(y[:, 4:])
    assert output_error("y", y, BOXES_AND_SCORES, Tolerance(TOLERANCE)).passed, "as a whole"
    found = output_error("y", y, BOXES_AND_SCORES, BY_PARTS)
    assert not found.passed and found.part == [[0, 1], [4, 8], [0, 10]]
    assert found.part_scale == pytest.approx(0.48) and found.worst_index is not None
    assert 4 <= found.worst_index[1] < 8


def test_a_part_may_be_off_by_its_own_tolerance() -> None:
    scale = np.where(np.arange(8).reshape(1, 8, 1) < 4, 640, 0.48)
    y = (BOXES_AND_SCORES + 0.9e-3 * scale).astype(np.float32)
    assert output_error("y", y, BOXES_AND_SCORES, BY_PARTS).passed


def test_a_part_of_zeros_may_be_off_by_a_rounding_of_the_largest_value() -> None:
    r = BOXES_AND_SCORES.copy()
    r[:, 4:] = 0
    assert output_error("y", np.where(r == 0, np.float32(6e-5), r), r, BY_PARTS).passed
    assert not output_error("y", np.where(r == 0, np.float32(1e-3), r), r, BY_PARTS).passed


def test_parts_of_a_reference_of_zeros() -> None:
    r = np.zeros((1, 8), np.float32)
    assert output_error("y", r, r, BY_PARTS).passed
    found = output_error("y", r + 1, r, BY_PARTS)
    assert not found.passed and found.problem == "the reference is zero everywhere"


@pytest.mark.parametrize(
    ("y", "r", "allowed", "words"),
    [
        (BOXES_AND_SCORES * 0, BOXES_AND_SCORES, BY_PARTS, "relative to 640, the largest of part [:, 0:4]"),
        (
            np.array([1, 5]),
            np.array([1, 2]),
            Tolerance(TOLERANCE),
            "differs by up to 3, where values must be",
        ),
        (
            np.ones(2, np.float32),
            np.zeros(2, np.float32),
            Tolerance(TOLERANCE),
            "reference is zero everywhere",
        ),
        (np.ones(3), np.ones(2), Tolerance(TOLERANCE), "shape [3] where [2] is expected"),
    ],
    ids=["a part", "integers", "a reference of zeros", "another shape"],
)
def test_failure_message_states_the_error(
    y: np.ndarray, r: np.ndarray, allowed: Tolerance, words: str
) -> None:
    assert words in output_error("y", y, r, allowed).failure
