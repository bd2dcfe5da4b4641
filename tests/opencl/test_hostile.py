"""No value makes a kernel leave its buffers: Oclgrind looks on at kernels that nothing was checked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.backends.packed.computed import loaded
from tests.models.bounds.cases import CASES, drawn
from tests.opencl.networks import side_by_side
from tests.whole import SECONDS
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import LOCAL
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import read_bundle
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.run import run_bundle
from toolchain.models.importing import importer
from toolchain.targets.build_for import BuildFor
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow

TRIED = [case for case in CASES if not case.domain and case.opset == 21]


def test_kernels_without_checks(board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "with_checks", lambda model, _origin: model)
    sample = {
        f"n{place}_{name}": value for place, case in enumerate(TRIED) for name, value in case.given.items()
    }
    options = BuildOptions(code=CodeOptions(device="opencl"), sample=sample)
    to = BuildFor(board.profile, LOCAL, emulated=False, record_class=board.profile.name)
    model = loaded(side_by_side([case.model() for case in TRIED]))
    bundle = read_bundle(build(model, to, None, tmp_path, options).bundle)
    assert not bundle.manifest.runtime.functions
    random = np.random.default_rng(0)
    for _draw in range(3):
        run_bundle(
            bundle,
            OnBoard(board, timeout=SECONDS),
            {name: drawn(value, random) for name, value in sample.items()},
        )
