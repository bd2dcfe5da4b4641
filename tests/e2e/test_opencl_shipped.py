"""What the project ships for the Mali-T860: builds take it, and say that a model said so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Toolchain

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_state(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))  # the user has no record
    return state


def test_a_build_takes_the_shipped_records_and_says_so(invoke: Toolchain) -> None:
    typed = ("build", "zoo:squeezenet_v1.1", "--board", "rk3399", "--device", "opencl", "-o", "out")
    built = invoke(*typed)
    assert built.code == 0, built.err
    assert "shipped, exact, modelled" in built.out


def test_nothing_else_takes_them(invoke: Toolchain) -> None:
    for device in ("cpu", "opencl:another"):
        typed = ("build", "zoo:squeezenet_v1.1", "--board", "rk3399", "--device", device, "-o", "out")
        built = invoke(*typed, "--json")
        assert built.code == 0 and built.document["tasks"]["tuned"] == 0, built.err
