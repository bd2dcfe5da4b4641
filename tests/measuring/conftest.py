"""A small network, built for this host and for an emulated board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolchain.boards.board import Board
    from toolchain.bundles.read import Bundle

# Imported where they are used: the fast tests need no TVM.


@pytest.fixture(scope="session")
def for_local(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Return the network built for this host."""
    from tests.measuring.small_network import built

    return built("local", tmp_path_factory.mktemp("local"))


@pytest.fixture(scope="session")
def for_rk3399(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Return the network built for the class rk3399."""
    from tests.measuring.small_network import built

    return built("rk3399", tmp_path_factory.mktemp("rk3399"))


@pytest.fixture
def local(state: Path) -> Board:
    """Return the board `local` with nothing on it."""
    from toolchain.boards.inventory.lookup import find_board

    assert state
    return find_board("local")


@pytest.fixture(scope="session")
def rk3399() -> Iterator[Board]:
    """Yield an emulated rk3399."""
    from toolchain.boards.emulation import emulated

    yield emulated.start("rk3399", kind="process", name="measured")
    emulated.stop("measured")
