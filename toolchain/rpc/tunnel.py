"""A tunnel between a board and the lab, through an OpenSSH process.

The lab reaches the board's server at a socket in a folder of its own, the server the lab at a port of the
board's loopback.
An OpenSSH process brings the user's agent, jumps and ssh_config along, notices a dead board by
itself, and cannot deadlock with TVM's client as a tunnel inside a Python process does.
"""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from toolchain.boards.board import Board
from toolchain.boards.local.process import kill_group
from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError
from toolchain.processes.life import is_stopped
from toolchain.rpc.control import short_path
from toolchain.rpc.frames import HOST
from toolchain.rpc.tied import tied

_OPEN_S = 25.0  # to connect, log in and forward; ssh gives up the connection itself after 10 s
_END_S = 2.0
_CONNECT_S = 5.0
# The board's sshd chooses the port there, so that two hosts can use one board.
_ALLOCATED = re.compile(r"Allocated port (\d+) for remote forward")
_PORT_TAKEN = re.compile(r"Address already in use|cannot listen to port")
_OPTIONS = {
    "ExitOnForwardFailure": "yes",
    "ServerAliveInterval": "2",
    "ServerAliveCountMax": "3",
    "LogLevel": "INFO",  # tells the allocated port
    # Nothing else of what an ssh_config may ask for on that host.
    "ControlMaster": "no",
    "ControlPath": "none",
    "StreamLocalBindUnlink": "yes",  # a lab that was killed leaves its sockets
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "GatewayPorts": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "Tunnel": "no",
}


class PortTakenError(ToolchainError):
    """Another program took the port meanwhile; the next attempt uses another port."""


class Tunnel:
    """Forwards one connection each way while it is open.

    Parameters
    ----------
    board
        A remote board.
    tracker
        The tracker's port on this host.
    log
        File of this host that takes what the client says; its folder takes the socket.

    Attributes
    ----------
    board_port
        Of the server on the board.
    tracker_port
        The tracker's on the board.
    """

    def __init__(self, board: Board, tracker: int, log: Path) -> None:
        self.board_port = free_port()  # a board may share this host's loopback
        self.tracker_port = 0
        self._board = board
        self._tracker = tracker
        self._log = log
        self._said = ""
        self._settled = threading.Event()
        self._closing = False

    def open(self, lost: Callable[[ToolchainError], object]) -> None:
        """Return once both are forwarded.

        Parameters
        ----------
        lost
            Called from another thread when the tunnel ends without `close`.

        Raises
        ------
        ToolchainError
            The board cannot be reached, is another one, or refuses us or the forwarding.
        """
        # It ends with this thread: the caller's must last as long as the tunnel.
        self._client = subprocess.Popen(
            tied(self._command()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self._log.parent,  # a socket's path has at most 107 bytes
            start_new_session=True,  # Ctrl-C is not for it; nor is there a terminal to ask at
        )
        self._reader = threading.Thread(
            target=self._listen, args=(lost,), name=f"tunnel of board {self._board.name}", daemon=True
        )
        self._reader.start()
        if not self._settled.wait(_OPEN_S):
            self.close()
            raise LostError(f"board {self._board.name}: no tunnel within {_OPEN_S:g} s", f"see {self._log}")
        if not self.tracker_port:
            self.close()
            raise self._failure()

    def connect(self) -> socket.socket:
        """Connect to the server on the board."""
        with short_path(self._log.parent, self._socket) as path, contextlib.ExitStack() as failed:
            connection = failed.enter_context(socket.socket(socket.AF_UNIX))
            connection.settimeout(_CONNECT_S)
            connection.connect(path)
            failed.pop_all()
            return connection

    def silent(self) -> str | None:
        """Return a sentence if the ssh process is stopped, None if it runs."""
        if is_stopped(self._client.pid):
            return f"board {self._board.name}: the tunnel is stopped: process {self._client.pid} (ssh)"
        return None

    def close(self) -> None:
        """End the client, and what it started for a jump."""
        self._closing = True
        kill_group(self._client, signal.SIGTERM)
        try:
            self._client.wait(_END_S)
        except subprocess.TimeoutExpired:
            kill_group(self._client)
            self._client.wait(_END_S)
        self._reader.join(_END_S)
        with contextlib.suppress(OSError):
            (self._log.parent / self._socket).unlink()

    @property
    def _socket(self) -> str:
        return f"{self._log.stem}.sock"

    def _command(self) -> list[str]:
        words = ["-N"]
        words += ["-L", f"./{self._socket}:{HOST}:{self.board_port}"]
        words += ["-R", f"{HOST}:0:{HOST}:{self._tracker}"]
        for key, value in _OPTIONS.items():
            words += ["-o", f"{key}={value}"]
        return self._board.transport.ssh_command(words)

    def _listen(self, lost: Callable[[ToolchainError], object]) -> None:
        assert self._client.stderr is not None  # noqa: S101 - PIPE above
        with self._client.stderr as stream, self._log.open("ab") as log:
            for line in stream:
                log.write(line)
                log.flush()
                text = line.decode(errors="replace").strip()
                if found := _ALLOCATED.search(text):
                    self.tracker_port = int(found[1])
                    self._settled.set()
                elif text and not _PORT_TAKEN.search(self._said):
                    self._said = text  # the last word, but the cause before its consequence
        self._client.wait()
        was_open = self._settled.is_set()
        self._settled.set()
        if was_open and not self._closing:
            lost(self._failure())

    def _failure(self) -> ToolchainError:
        said = self._said or f"exit code {self._client.returncode}"
        message = f"board {self._board.name}: the tunnel has ended: {said}"
        if _PORT_TAKEN.search(said):
            return PortTakenError(message, f"see {self._log}")
        return LostError(message, f"see {self._log}")


def free_port() -> int:
    """Return a port of this host's loopback at which nobody listens now."""
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])
