"""Networks on edge-rt with the emulated CUDA driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import LOCAL, local_board
from toolchain.boards.local.transport import LocalTransport
from toolchain.building.build import BuildOptions, build
from toolchain.bundles.read import read_bundle
from toolchain.emulated_cuda import ensure_emulated_cuda
from toolchain.measuring.run import run_bundle
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model
from toolchain.targets.build_for import BuildFor
from toolchain.tasks.options import CodeOptions

SECONDS = 600.0


@contextmanager
def emulated(patch: pytest.MonkeyPatch) -> Iterator[Board]:
    """Yield the board `local`, whose CUDA driver is the emulated one."""
    plain = LocalTransport._environment()
    words = {"EDGE_CUDA_DRIVER": str(ensure_emulated_cuda())}
    patch.setattr(LocalTransport, "_environment", staticmethod(lambda: plain | words))
    yield local_board()


def error_of(model: Model, board: Board, folder: Path, dtype: str = "float32") -> float:
    """Build a network for the emulated driver and run it; return its error relative to the outputs."""
    options = BuildOptions(code=CodeOptions(device="cuda", arch="emulated", dtype=dtype))
    to = BuildFor(board.profile, LOCAL, emulated=False, record_class=board.profile.name)
    bundle = read_bundle(build(model, to, None, folder, options).bundle)
    inputs = sample_inputs(model, 0)
    found, worst = run_bundle(bundle, board, inputs, timeout=SECONDS), 0.0
    for name, expected in reference_outputs(model, dict(inputs)).items():
        mine = found[name]
        assert (mine.shape, mine.dtype) == (expected.shape, expected.dtype), name
        scale = max(1.0, float(abs(expected).max()))
        worst = max(worst, float(np.abs(mine.astype("f8") - expected).max()) / scale)
    return worst
