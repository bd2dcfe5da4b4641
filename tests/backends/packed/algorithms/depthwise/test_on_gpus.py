"""Depthwise kernels on the emulated CUDA driver, which finds wrong accesses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.packed.computed import loaded
from tests.backends.packed.single import Layer
from tests.opencl.networks import layer, side_by_side
from tests.testbeds.cuda.networks import emulated, error_of

LAYERS = (
    Layer(24, 24, (7, 7), groups=24),
    Layer(20, 20, (9, 14), stride=2, groups=20),
    Layer(12, 12, (13, 13), kernel=5, pad=2, groups=12),
)


@pytest.mark.slow
def test_default_tiles_compute_their_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    assert state
    model = side_by_side([layer(each) for each in LAYERS])
    with emulated(monkeypatch) as board:
        assert error_of(loaded(model), board, tmp_path) < 3e-6
