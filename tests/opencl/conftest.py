"""What runs on an OpenCL device that looks at every access."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolchain.boards.board import Board


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch, state: Path) -> Iterator[Board]:
    """Yield the board `local` on Oclgrind, which must have found nothing in the end."""
    from tests.opencl.networks import simulated

    assert state
    with simulated(monkeypatch) as (found, complaints):
        yield found
        assert not complaints.exists() or not complaints.read_text()
