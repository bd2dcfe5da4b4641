"""What candidates are run with: the same in every process, ordinary numbers and others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from edge_toy.backend import NumpyProduct, Product

from toolchain.arrays import Array
from toolchain.errors import ToolchainError
from toolchain.tasks.candidate import Parameter
from toolchain.tuning.boards import cases
from toolchain.tuning.boards.cases import drawn, run_cases, wrong

pytestmark = pytest.mark.slow

WIDE = Parameter((64, 64), "float32")
TASK = Product("ab" * 8, "matmul", 1, 8192, ((64, 64), (64, 64), (64, 64)))


@dataclass(frozen=True)
class Failing:
    """A definition that this host cannot compute."""

    parameters: tuple[Parameter, ...] = (WIDE,)

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        raise ToolchainError(f"no such instruction in {len(draws)} draws")


@dataclass(frozen=True)
class Endless(Failing):
    """A definition that takes too long."""

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        time.sleep(600)
        return [list(draw) for draw in draws]


def test_first_draw_is_ordinary_and_the_next_has_zeros_and_large_values() -> None:
    first, second = (drawn([WIDE], draw)[0] for draw in (0, 1))
    assert first.all() and np.abs(first).max() < 10
    assert 0.2 < np.mean(second == 0) < 0.3
    assert np.abs(second).max() > 30 and np.isfinite(second).all()
    assert not np.array_equal(first, second)


def test_draws_are_the_same_each_time_and_differ_by_place() -> None:
    once, again = drawn([WIDE, WIDE], 0), drawn([WIDE, WIDE], 0)
    assert all(np.array_equal(once[place], again[place]) for place in (0, 1))
    assert not np.array_equal(once[0], once[1])


def test_integers_of_8_bits_are_no_indices() -> None:
    first, second = (drawn([Parameter((64, 64), "int8")], draw)[0] for draw in (0, 1))
    assert first.dtype == second.dtype == np.int8 and (first.min(), first.max()) == (-128, 127)
    assert np.mean(np.isin(second, (-128, 0, 127))) > 0.2 > np.mean(np.isin(first, (-128, 0, 127)))


def test_constants_are_not_drawn_indices_stay_0_and_float16_is_finite() -> None:
    half, index, flag = Parameter((64, 64), "float16"), Parameter((9,), "int64"), Parameter((64,), "bool")
    arrays = drawn([Parameter((2,), "float32", value=np.ones(2)), half, index, flag], 1)
    assert sorted(arrays) == [1, 2, 3]
    assert np.isfinite(arrays[1]).all() and not arrays[2].any() and 0 < arrays[3].sum() < 64


def test_cases_hold_what_the_definition_computes() -> None:
    with run_cases(pytest.fail) as run:
        run.begin(TASK, NumpyProduct((WIDE, WIDE)))
        for case in run.of(TASK):
            given, expected = case.arguments(), case.expected()
            assert expected is not None and np.array_equal(expected[0], given[0] @ given[1])
    assert not case.inputs.exists()


@pytest.mark.parametrize(("reference", "why"), [(Failing(), "no such instruction"), (Endless(), "no answer")])
def test_a_definition_that_cannot_be_computed_is_told(
    reference: Failing, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "_REFERENCE_S", 20.0 if why == "no such instruction" else 3.0)
    told: list[str] = []
    with run_cases(told.append) as run:
        run.begin(TASK, reference)
        assert all(case.expected() is None for case in run.of(TASK))
    assert len(told) == 1 and TASK.id in told[0] and why in told[0]


EXPECTED = np.linspace(-3, 3, 64, dtype=np.float32).reshape(8, 8)


def test_rounding_is_no_fault() -> None:
    assert wrong([EXPECTED * np.float32(1 + 1e-5)], [EXPECTED]) == ""


@pytest.mark.parametrize("value", [3.5, np.nan, np.inf])
def test_one_value_that_is_another_is_wrong(value: float) -> None:
    output = EXPECTED.copy()
    output[2, 3] = value
    assert "differs from the definition by" in wrong([output], [EXPECTED])


def test_every_output_counts() -> None:
    assert wrong([EXPECTED, EXPECTED + 1], [EXPECTED, EXPECTED])


def test_beyond_the_domain_nothing_is_asked() -> None:
    expected = EXPECTED.copy()
    expected[0, 0], expected[0, 1] = np.nan, np.inf
    output = EXPECTED.copy()
    assert wrong([output], [expected]) == ""
    output[1, 1] += 1
    assert wrong([output], [expected])


def test_zeros_must_be_zeros() -> None:
    zeros = np.zeros(4, np.float32)
    assert wrong([zeros], [zeros]) == ""
    assert wrong([zeros + np.float32(1e-6)], [zeros])


def test_float16_is_coarser() -> None:
    half = EXPECTED.astype(np.float16)
    assert wrong([half * np.float16(1.01)], [half]) == ""
    assert wrong([half * np.float16(1.03)], [half])


def test_integers_are_compared() -> None:
    counts = np.arange(8)
    assert wrong([counts], [counts]) == "" and wrong([counts[::-1]], [counts])


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_half_that_is_rounded_the_other_way_is_no_fault(dtype: str) -> None:
    expected = np.random.default_rng(0).integers(0, 255, 10_000).astype(dtype)
    output = expected.copy()
    output[:50] += 1
    assert wrong([output], [expected]) == ""
    output[:200] += 1  # 2 %: no accident
    assert wrong([output], [expected])
    two = expected.copy()
    two[0] += 2
    assert wrong([two], [expected])


def test_an_index_beside_the_right_one_is_wrong() -> None:
    expected = np.arange(10_000)
    output = expected.copy()
    output[0] += 20
    assert wrong([output], [expected])
