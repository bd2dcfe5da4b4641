"""An emulated Arm board whose CPU computes for OpenCL: a kernel is compiled there and runs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.runtime import opencl_network
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import install
from toolchain.boards.edge_rt.status import status
from toolchain.boards.emulation import emulated
from toolchain.boards.ssh.transport import SshTransport
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError, UsageError
from toolchain.images.debian.system import ensure_image


@pytest.fixture
def board(state: Path) -> Iterator[Board]:
    assert state
    configuration.cache_clear()
    made = emulated.start("rk3399", name="gpu-box", device="opencl")
    assert isinstance(made.transport, SshTransport)
    yield made
    made.transport.close()
    emulated.stop("gpu-box")


@pytest.mark.slow
def test_a_network_computes_by_opencl_on_an_emulated_arm_board(board: Board, tmp_path: Path) -> None:
    x = np.arange(64, dtype="float32")
    given = io.BytesIO()
    np.save(given, x)
    board.transport.put(opencl_network.one_kernel("aarch64"), "lib/network.so")
    board.transport.put(given.getvalue(), "x.npy")
    words = ("run", "lib/network.so", "--input", "x.npy", "--device", "opencl", "--output", "y.npz")
    done = board.transport.run(install(board).command(*words), timeout=300)
    assert done.returncode == 0, done.stdout
    board.transport.get("y.npz", tmp_path / "y.npz")
    (y,) = np.load(tmp_path / "y.npz").values()
    np.testing.assert_array_equal(y, x + 1)

    said = status(board)
    assert said.emulated and said.hints == []
    assert [(kind["kind"], len(kind["names"])) for kind in said.drivers] == [("opencl", 1)]
    with pytest.raises(UsageError, match="board gpu-box was made with --opencl"):
        emulated.start("rk3399", name="gpu-box")


BEFORE = """{
 "schema_version": 1,
 "name": "gpu-box",
 "board_class": "rk3399",
 "kind": "container",
 "container": {"id": "0123456789abcdef", "port": 2222, "host_key": "ssh-ed25519 AAAA"},
 "opencl": %s
}
"""


@pytest.mark.parametrize(
    ("opencl", "made", "asked"), [("true", "with", ""), ("false", "without", "opencl"), ("false", None, "")]
)
def test_a_board_from_before_kinds_were_rows_is_what_it_was(
    state: Path, monkeypatch: pytest.MonkeyPatch, opencl: str, made: str | None, asked: str
) -> None:
    """Such files had `opencl`, a boolean, for what is `device` today."""
    folder = state / "emulated" / "gpu-box"
    folder.mkdir(parents=True)
    (folder / "board.json").write_text(BEFORE % opencl)
    assert [board.name for board in emulated.list_emulated()] == ["gpu-box"]
    assert emulated.kind("gpu-box") == "container"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{state}/no.sock")
    monkeypatch.setattr(emulated, "check_test_bed", lambda *_: None)  # asks what this host has
    expected = f"board gpu-box was made {made} --opencl" if made else "no Docker daemon answers"
    with pytest.raises(ToolchainError, match=expected):
        emulated.start("rk3399", "container", name="gpu-box", device=asked)


def test_systems_with_a_driver_are_made_for_arm_alone() -> None:
    no_engine = cast(Any, None)  # it is refused before an engine is asked
    with pytest.raises(
        UsageError, match=r"no system with a driver of it for amd64 boards \(there is one for arm64"
    ):
        ensure_image(no_engine, "amd64", print, device="opencl")
