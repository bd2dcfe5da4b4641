"""Operators in CUDA, computed by the emulated driver, against what onnx and onnxruntime say of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.opencl.test_operators import NOT_COMPARED, cases, refusals
from toolchain.tasks import options

pytestmark = pytest.mark.slow

DELICATE = {
    "Abs": "rows of five: vectors that lie at no multiple of their size",
    "Attention": "masks: truth values in memory, and conditions that are no comparisons",
    "BitwiseNot": "an operator that vectors do not have",
    "CumSum": "a scan",
    "DequantizeLinear": "8-bit integers",
    "Not": "an operator that vectors do not have, of truth values",
    "ReduceMin": "truth values as 8-bit integers, of which a vector is one int",
    "SoftmaxCrossEntropyLoss": "indices that are checked on the host, between the kernels of a graph",
    "Where": "conditions that are loaded",
}
"""Operators whose code TVM's generator of CUDA C++ wrote wrong once, or may, and why."""
PARTS = 4


def test_delicate_operators_match_onnx() -> None:
    """All others take minutes: a kernel compiles for a second, since each access is checked."""
    assert refusals((case for name in DELICATE for case in cases()[name]), "cuda") == {}


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_operator_matches_onnx(part: int) -> None:
    selected = dict(list(cases().items())[part::PARTS])
    failures = refusals((case for cases_of in selected.values() for case in cases_of), "cuda")
    assert failures == {selected[name][0].name: why for name, why in NOT_COMPARED.items() if name in selected}


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_operators_match_onnx_in_float16(monkeypatch: pytest.MonkeyPatch) -> None:
    """To what float16 rounds, relative to the largest number; NVRTC takes their kernels, too."""
    monkeypatch.setattr(options, "CodeOptions", partial(options.CodeOptions, dtype="float16"))
    rough = [
        replace(case, rtol=3e-2, atol=3e-2 * max(map(largest, case.outputs)))
        for cases_of in cases().values()
        for case in cases_of
    ]
    assert refusals(rough, "cuda") == {cases()[name][0].name: why for name, why in NOT_COMPARED.items()}


def largest(array: np.ndarray) -> float:
    array = np.atleast_1d(array)
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array[:0]
    return float(np.abs(finite).max(initial=0))
