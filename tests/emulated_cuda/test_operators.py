"""Operators in CUDA, computed by the emulated driver, against what onnx and onnxruntime say of them."""

from __future__ import annotations

import pytest

from tests.opencl.test_operators import NOT_COMPARED, cases, refusals

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


def test_delicate_operators_compute_what_onnx_says() -> None:
    """All others take minutes: a kernel compiles for a second, since each access is checked."""
    assert refusals((case for name in DELICATE for case in cases()[name]), "cuda") == {}


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_operator_computes_what_onnx_says(part: int) -> None:
    wanted = dict(list(cases().items())[part::PARTS])
    found = refusals((case for mine in wanted.values() for case in mine), "cuda")
    assert found == {wanted[name][0].name: why for name, why in NOT_COMPARED.items() if name in wanted}
