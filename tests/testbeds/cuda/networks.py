"""Networks on edge-rt with the emulated CUDA driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.whole import error_of_code
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import local_board
from toolchain.models.load import Model
from toolchain.tasks.options import CodeOptions
from toolchain.testbeds.cuda import ensure_emulated_cuda


@contextmanager
def emulated(patch: pytest.MonkeyPatch) -> Iterator[Board]:
    """Yield the board `local`, whose CUDA driver is the emulated one."""
    patch.setenv("EDGE_CUDA_DRIVER", str(ensure_emulated_cuda()))
    yield local_board()


def error_of(model: Model, board: Board, folder: Path, dtype: str = "float32") -> float:
    """Build a network for the emulated driver and run it; return its error relative to the outputs."""
    return error_of_code(model, board, folder, CodeOptions(device="cuda", arch="emulated", dtype=dtype))
