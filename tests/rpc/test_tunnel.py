"""A tunnel's process: its port is read from what it says, its end is told, and `close` leaves nothing."""

from __future__ import annotations

import dataclasses
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from tests.waiting import until
from toolchain.boards.inventory.lookup import find_board
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError
from toolchain.rpc import tunnel as tunnel_module
from toolchain.rpc.frames import HOST
from toolchain.rpc.tunnel import PortTakenError, Tunnel, free_port

STAYS = "import time; time.sleep(100)"
OPENED = "print('Allocated port 4711 for remote forward to 127.0.0.1:9', file=sys.stderr, flush=True)"


class Scripted(LocalTransport):
    """In place of ssh runs a script, and keeps the words that ssh would have been given."""

    def __init__(self, root: Path, script: str) -> None:
        super().__init__(root)
        self.script = script

    def ssh_command(self, options: Sequence[str] = (), *, asks: bool = False) -> list[str]:
        del asks
        self.words = list(options)
        return [sys.executable, "-c", f"import sys\n{self.script}"]


@pytest.fixture
def tunnel(tmp_path: Path) -> Callable[[str], Tunnel]:
    def made(script: str) -> Tunnel:
        board = dataclasses.replace(find_board("local"), name="b", transport=Scripted(tmp_path, script))
        return Tunnel(board, 9190, tmp_path / "b.log")

    return made


def no_loss(error: ToolchainError) -> None:
    raise AssertionError(error)


def test_the_port_is_the_one_that_the_board_allocated_and_close_ends_the_process(
    tunnel: Callable[[str], Tunnel], tmp_path: Path
) -> None:
    opened = tunnel(f"print('Warning: x', file=sys.stderr)\n{OPENED}\n{STAYS}")
    opened.open(no_loss)
    try:
        assert opened.tracker_port == 4711
        assert opened.silent() is None
        pid = opened._client.pid
        assert (tmp_path / "b.log").read_text().startswith("Warning: x\nAllocated port 4711")
    finally:
        opened.close()
    assert not psutil.pid_exists(pid)


def test_a_tunnel_that_ends_by_itself_is_told_once_with_its_last_word(
    tunnel: Callable[[str], Tunnel],
) -> None:
    told: list[ToolchainError] = []
    opened = tunnel(f"{OPENED}\nprint('Timeout, server not responding.', file=sys.stderr)")
    opened.open(told.append)
    try:
        until(lambda: told)
    finally:
        opened.close()
    (error,) = told
    assert isinstance(error, LostError)
    assert error.message == "board b: the tunnel has ended: Timeout, server not responding."
    assert error.hint.endswith("b.log")


@pytest.mark.parametrize(
    ("script", "kind", "said"),
    [
        ("print('Permission denied (publickey).', file=sys.stderr)", LostError, "Permission denied"),
        ("sys.exit(255)", LostError, "exit code 255"),
        (
            "print('bind: Address already in use\\nCould not request forwarding.', file=sys.stderr)",
            PortTakenError,
            "Address already in use",
        ),
    ],
    ids=["refused", "silent", "port"],
)
def test_one_that_never_opened_says_the_cause(
    tunnel: Callable[[str], Tunnel], script: str, kind: type[ToolchainError], said: str
) -> None:
    with pytest.raises(kind, match=said) as caught:
        tunnel(script).open(no_loss)
    assert caught.value.message.startswith("board b: the tunnel has ended: ")


@pytest.mark.slow
def test_a_stopped_process_is_named_and_ended(
    tunnel: Callable[[str], Tunnel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel_module, "_END_S", 0.2)  # it does not hear SIGTERM
    opened = tunnel(f"{OPENED}\nimport os, signal\nos.kill(os.getpid(), signal.SIGSTOP)")
    opened.open(no_loss)
    try:
        until(lambda: opened.silent() is not None)
        assert opened.silent() == f"board b: the tunnel is stopped: process {opened._client.pid} (ssh)"
    finally:
        opened.close()
    assert not psutil.pid_exists(opened._client.pid)


def test_ssh_is_asked_for_both_ways_and_for_nothing_of_the_users_config(
    tunnel: Callable[[str], Tunnel],
) -> None:
    opened = tunnel("sys.exit(1)")
    with pytest.raises(LostError):
        opened.open(no_loss)
    transport = opened._board.transport
    assert isinstance(transport, Scripted)
    words = transport.words
    assert words[words.index("-L") + 1] == f"./b.sock:127.0.0.1:{opened.board_port}"
    assert words[words.index("-R") + 1] == "127.0.0.1:0:127.0.0.1:9190"
    assert {"ForwardAgent=no", "GatewayPorts=no", "ExitOnForwardFailure=yes"} <= set(words)


def test_a_free_port_can_be_listened_at() -> None:
    with socket.create_server((HOST, free_port())) as server:
        assert server.getsockname()[0] == HOST
