"""Whole ways, as a user goes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolchain.boards.board import Board


@pytest.fixture(scope="session")
def rk3399() -> Iterator[Board]:
    """Yield an emulated rk3399 of this folder's own."""
    from toolchain.boards.emulation import emulated

    yield emulated.start("rk3399", kind="process", name="whole-ways")
    emulated.stop("whole-ways")


@pytest.fixture(scope="session")
def pynq() -> Iterator[Board]:
    """Yield an emulated pynq of this folder's own."""
    from toolchain.boards.emulation import emulated

    yield emulated.start("pynq", kind="process", name="whole-ways-32")
    emulated.stop("whole-ways-32")
