"""The lab with a board that is a system of its own: an arm64 container."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.waiting import until
from toolchain.boards.emulation import containers, emulated
from toolchain.boards.inventory.lookup import find_board
from toolchain.configuration.settings import configuration
from toolchain.images.engine import connect
from toolchain.rpc import lab

pytestmark = pytest.mark.slow
KEY = "rk3399+emulated"
FREE = {"total": 1, "free": 1, "pending": 0}


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the board `box`; yield its container."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOOLCHAIN_STATE_DIR", str(folder))
        configuration.cache_clear()
        emulated.start("rk3399", "container", name="box")
        with connect() as engine:
            (ours,) = (
                c
                for c in engine.containers(containers.PURPOSE)
                if c.labels["edge-toolchain.state"] == str(folder)
            )
        yield ours.id
        lab.stop()
        emulated.stop("box")
        configuration.cache_clear()


def inside(container: str, *argv: str) -> str:
    docker = ["docker", "exec", container, *argv]
    return subprocess.run(docker, check=True, capture_output=True, text=True, timeout=60).stdout


def listening(container: str) -> set[str]:
    """Return where anything listens inside, but for the board's own sshd at port 22."""
    lines = inside(container, "cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines()
    found = [line.split() for line in lines if " 0A " in line]
    return {fields[1].split(":")[0] for fields in found if not fields[1].endswith(":0016")}


def servers(container: str) -> list[str]:
    """Return the command lines of edge-rt inside."""
    found = inside(container, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo")
    return [word for word in found.split() if word.startswith("bin/edge-rt")]


def state() -> str:
    return lab.status().boards["box"].state


def test_nothing_listens_beyond_loopback_and_nothing_stays(container: str) -> None:
    assert lab.start([find_board("box")]).keys == {KEY: FREE}
    assert listening(container) == {"0100007F"}  # 127.0.0.1
    assert lab.stop() is True
    assert servers(container) == []
    until(lambda: listening(container) == set())


def test_a_killed_lab_leaves_nothing_on_the_board(container: str) -> None:
    os.kill(lab.start([find_board("box")]).pid, signal.SIGKILL)
    until(lambda: servers(container) == [] and listening(container) == set())


def test_a_frozen_board_is_away_and_comes_back(container: str) -> None:
    lab.start([find_board("box")])
    with connect() as engine:
        engine.pause(container)
        try:
            until(lambda: state() == "away")
            assert lab.status().keys == {KEY: {"total": 0, "free": 0, "pending": 0}}
        finally:
            engine.unpause(container)
    until(lambda: state() == "serving")
    assert lab.status().keys == {KEY: FREE}
    lab.stop()
    assert servers(container) == []
