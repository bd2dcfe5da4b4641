"""Networks on edge-rt with Oclgrind as its driver: what they compute, and whether kernels keep to their memory.

`python -m tests.opencl.networks NAME...` tries operators of tests/backends/packed/networks.py one by one.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.backends.packed.computed import loaded
from tests.opencl.oclgrind import DRIVER
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import LOCAL, BuildFor, local_board
from toolchain.boards.local.transport import LocalTransport
from toolchain.building.build import BuildOptions, build
from toolchain.bundles.read import read_bundle
from toolchain.measuring.run import run_bundle
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model
from toolchain.tasks.options import CodeOptions

SECONDS = 600.0


@contextmanager
def simulated(patch: pytest.MonkeyPatch) -> Iterator[tuple[Board, Path]]:
    """Yield the board `local` whose driver is Oclgrind, and the file of its complaints."""
    with tempfile.TemporaryDirectory(prefix="oclgrind-") as name:
        folder = Path(name)
        (folder / "libOpenCL.so.1").symlink_to(DRIVER)
        complaints = folder / "complaints"
        plain = LocalTransport._environment()
        words = {
            "LD_LIBRARY_PATH": str(folder),
            "OCLGRIND_DATA_RACES": "1",
            "OCLGRIND_LOG": str(complaints),
        }
        patch.setattr(LocalTransport, "_environment", staticmethod(lambda: plain | words))
        yield local_board(), complaints


def error_of(model: Model, board: Board, folder: Path, winograd: str = "auto") -> float:
    """Build a network for OpenCL and run it; return the largest error, relative to the output's largest."""
    options = BuildOptions(code=CodeOptions(device="opencl", winograd=winograd))
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


def side_by_side(models: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    """Return one network of them all."""
    first, *others = (onnx.compose.add_prefix(model, f"n{number}_") for number, model in enumerate(models))
    for other in others:
        first = onnx.compose.merge_models(first, other, io_map=[])
    return first


def main(names: Sequence[str]) -> None:
    """Try operators by themselves, packed and plain."""
    from tests.backends.packed.networks import CASES

    patch = pytest.MonkeyPatch()
    with simulated(patch) as (board, complaints):
        for case in CASES:
            for packed in (True, False):
                if names and not any(name in case.name for name in names):
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        error = f"{error_of(loaded(case.model(packed=packed)), board, Path(folder)):.1e}"
                    except Exception as problem:  # every operator is tried
                        error = f"{type(problem).__name__}: {problem}"[:300]
                said = complaints.read_text() if complaints.exists() else ""
                complaints.unlink(missing_ok=True)
                print(case.name, "packed" if packed else "plain", error, said[:600], flush=True)
    patch.undo()


if __name__ == "__main__":
    main(sys.argv[1:])
