"""`toolchain lab`."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Toolchain


@pytest.mark.usefixtures("state")
def test_nothing_runs_at_first(invoke: Toolchain) -> None:
    assert invoke("lab", "status", "--json").document["tracker"] is None
    assert "lab start" in invoke("lab", "status").out
    assert invoke("lab", "stop", "--json").document == {"stopped": False}


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_start_status_stop(toolchain: Toolchain) -> None:
    try:
        started = toolchain("lab", "start", "--board", "local", "--json")
        assert started.code == 0, started.err
        status = toolchain("lab", "status", "--json").document
        assert status["tracker"].startswith("127.0.0.1:")
        assert status["keys"] == {"local": {"total": 1, "free": 1, "pending": 0}}
        assert "local" in toolchain("lab", "status").out
    finally:
        assert toolchain("lab", "stop", "--json").document == {"stopped": True}
    assert toolchain("lab", "status", "--json").document["tracker"] is None
