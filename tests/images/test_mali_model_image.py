"""The image mali-model, really made: it says what was recorded, which meets what was measured on a Mali."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.testbeds.mali.article import MEASURED_GFLOPS, kernel
from toolchain.devices.kernel import Kernel
from toolchain.images.listing import ImageState
from toolchain.testbeds.mali.estimate import estimate
from toolchain.testbeds.mali.statistics import read_statistics
from toolchain.testbeds.mali.store import KernelError, MaliCompiler

RECORDED = Path(__file__).parents[1] / "testbeds" / "mali" / "recorded"


@pytest.mark.full  # it takes minutes to make: CI has none
@pytest.mark.timeout(3600)
def test_model_estimates_kernels_measured_in_2018(built: Callable[[str], ImageState]) -> None:
    assert built("mali-model").word == "current"
    half = "__kernel void half_(__global half4* x) { x[0] += x[1]; }\n"
    with MaliCompiler() as compiler:
        for step, measured in MEASURED_GFLOPS.items():
            launched = kernel(step)
            compiled = compiler.compile(launched)
            assert compiled == read_statistics((RECORDED / f"{step}.txt").read_text()), step
            estimated = estimate(launched, compiled)
            assert estimated is not None and estimated.gflops(launched.items) == pytest.approx(
                measured, rel=0.09
            )
        with pytest.raises(KernelError, match="kernel broken does not compile"):
            compiler.compile(
                Kernel("broken", "__kernel void broken(int x) { y = x; }\n", (1, 1, 1), (1, 1, 1))
            )
        assert compiler.compile(Kernel("half_", half, (64, 1, 1), (1, 1, 1))).spills == 0
