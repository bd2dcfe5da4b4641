"""A folder of this host as a board."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.boards.local.transport import LocalTransport


@pytest.fixture
def board(tmp_path: Path) -> LocalTransport:
    root = tmp_path / "root"
    root.mkdir()
    return LocalTransport(root)
