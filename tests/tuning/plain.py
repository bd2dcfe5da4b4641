"""Code whose schedules are searched, for tests that need a search without an end."""

from __future__ import annotations

from typing import Any

from toolchain.backends.table import backend_for
from toolchain.boards.board import Board
from toolchain.tasks.backend import Backend
from toolchain.tasks.options import CodeOptions


def plain(board: Board) -> Backend[Any]:
    """Return the backend of plain loops for a board."""
    return backend_for(board.profile, CodeOptions(layout="NCHW"))
