"""One of those between a client and a server is stopped: the wait ends in time and says who is silent."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.rpc.test_lab_ssh import Site
from tests.rpc.test_lab_ssh import site as site  # a fixture
from tests.waiting import until
from toolchain.boards.inventory.lookup import find_boards
from toolchain.errors import ToolchainError
from toolchain.rpc import client, lab, session
from toolchain.rpc.control import who_is_silent
from toolchain.rpc.frames import HOST

pytestmark = pytest.mark.slow

Stopped = Callable[[list[psutil.Process]], None]


@pytest.fixture
def stop() -> Iterator[Stopped]:
    """Stop processes; they go on when the test has ended."""
    stopped: list[psutil.Process] = []

    def stop(processes: list[psutil.Process]) -> None:
        assert processes
        for process in processes:
            stopped.append(process)
            process.send_signal(signal.SIGSTOP)

    yield stop
    for process in stopped:
        try:
            process.send_signal(signal.SIGCONT)
        except psutil.NoSuchProcess:
            continue


@pytest.mark.parametrize(
    ("who", "told"),
    [
        ("server", "the server of board one is silent"),
        ("tunnel", "one: the tunnel is stopped: process"),
        pytest.param("sshd", "one: the tunnel has ended: Timeout, server", marks=pytest.mark.full),
        ("lab", "the lab's own process is silent: no tracker answers"),
    ],
)
def test_a_session_with_who_is_stopped(
    site: Site, stop: Stopped, monkeypatch: pytest.MonkeyPatch, who: str, told: str
) -> None:
    site.add("one")
    started = lab.start(find_boards("one"))
    monkeypatch.setattr(session, "_CONNECT_S", 2.0)
    monkeypatch.setattr(client, "_ANSWER_S", 1.0)
    victims = {
        "server": site.programs,
        "tunnel": site.clients,
        "sshd": site.server.sessions,
        "lab": lambda: [psutil.Process(started.pid)],
    }
    begun = time.monotonic()
    stop(victims[who]())
    with pytest.raises(ToolchainError):
        session.open_session(HOST, started.port, "x86_64", timeout_s=30, wait_s=1)
    assert time.monotonic() - begun < 60
    until(lambda: told in who_is_silent(HOST, started.port, "one"))
