"""onnxruntime without a CPU's AVX-512 and VNNI, and what its saturating answers are compared with."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.latency.hidden import hide, saturates
from benchmarks.latency.measure import REFERENCE, WRONG, _errors


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="cpuid is an instruction of x86")
def test_onnxruntime_uses_the_kernels_of_avx2(tmp_path: Path) -> None:
    env = hide(tmp_path, Path(sys.executable))
    assert saturates(tmp_path, Path(sys.executable), env)


def test_a_reference_that_saturates_is_measured_and_what_is_right_is_not_dropped(tmp_path: Path) -> None:
    outputs = {REFERENCE: 0.5, "ours": 1.0, "wrong": 1.0 + 2 * WRONG, "right": 1.0}
    for name, value in outputs.items():
        np.save(tmp_path / f"{name}.npy", np.full(4, value))
    running: Any = {
        name: SimpleNamespace(output=tmp_path / f"{name}.npy") for name in outputs if name != "right"
    }
    dropped: list[str] = []

    def failed(name: str, _error: Exception) -> None:
        dropped.append(name)

    errors = _errors(running, failed, tmp_path / "right.npy")
    assert errors == {REFERENCE: 0.5, "ours": 0.0} and dropped == ["wrong"]
    dropped.clear()
    errors = _errors(running, failed, None)
    assert list(errors) == [REFERENCE] and dropped == ["ours", "wrong"]
