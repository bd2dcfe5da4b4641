"""Boards of these tests get the installer of tests/field in place of edge-rt."""

from __future__ import annotations

import pytest


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.rollouts.toys import stocked

    for module in ("attempt", "rollback"):
        monkeypatch.setattr(f"toolchain.rollouts.{module}.install_edge_rt", stocked)
