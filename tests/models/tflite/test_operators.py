"""Each operator beside TensorFlow Lite's reference kernels, on random integers and floats."""

from __future__ import annotations

import pytest

from tests.models.tflite.cases import CASES, Case
from tests.models.tflite.judge import compare

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("case", "form"),
    [
        pytest.param(case, form, id=f"{case.name}-{place}-{form}")
        for place, case in enumerate(CASES)
        for form in case.forms
    ],
)
def test_an_operator_is_within_a_step_of_the_reference_kernels(case: Case, form: str) -> None:
    compare(case.write(form), steps=case.steps, low=case.low, high=case.high, usual=bool(case.usual))
