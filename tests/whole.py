"""Whole networks: built, run on a board, and compared with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import LOCAL
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import read_bundle
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.run import run_bundle
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model
from toolchain.targets.build_for import BuildFor
from toolchain.tasks.options import CodeOptions

SECONDS = 600.0


def error_of_code(model: Model, board: Board, folder: Path, code: CodeOptions) -> float:
    """Build a network and run it on a board of this host; return its error, relative to its outputs."""
    to = BuildFor(board.profile, LOCAL, emulated=False, record_class=board.profile.name)
    bundle = read_bundle(build(model, to, None, folder, BuildOptions(code=code)).bundle)
    inputs = sample_inputs(model, 0)
    found, worst = run_bundle(bundle, OnBoard(board, timeout=SECONDS), inputs), 0.0
    for name, expected in reference_outputs(model, dict(inputs)).items():
        mine = found[name]
        assert (mine.shape, mine.dtype) == (expected.shape, expected.dtype), name
        scale = max(1.0, float(abs(expected).max()))
        difference = np.abs(mine.astype("f8") - expected)
        if np.isnan(difference).any():
            return np.inf  # as NaN it would be less than any limit, and lost in `max`
        worst = max(worst, float(difference.max()) / scale)
    return worst
