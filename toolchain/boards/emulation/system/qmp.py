"""QEMU's control socket: a line of JSON for each command and answer."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolchain.errors import ToolchainError
from toolchain.processes.life import Life

SOCKET = "qmp"  # in the machine's folder
_SECONDS = 30.0


class Control:
    """A connection to a running QEMU.

    Attributes
    ----------
    life
        The process of QEMU.
    """

    def __init__(self, connection: socket.socket, life: Life) -> None:
        self.life = life
        self._connection = connection
        self._lines = connection.makefile("rb")

    def execute(self, command: str, timeout: float = _SECONDS, **arguments: Any) -> Any:
        """Send a command; return what QEMU answers.

        Raises
        ------
        ToolchainError
            QEMU refuses the command, or gives no answer in `timeout` seconds.
        """
        self._connection.settimeout(timeout)
        try:
            self._connection.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
            while True:
                answer = self.read()
                if "return" in answer:
                    return answer["return"]
                if "error" in answer:
                    raise ToolchainError(f"QEMU refuses {command}: {answer['error'].get('desc')}")
        except OSError as error:
            raise ToolchainError(f"QEMU does not answer {command}: {error}") from error

    def read(self) -> dict[str, Any]:
        """Return the next message, an answer or an event; `ConnectionError` at the end."""
        line = self._lines.readline()
        if not line:
            raise ConnectionError("QEMU has ended")
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def control(folder: Path) -> Iterator[Control | None]:
    """Yield a connection to the QEMU that serves the socket in a folder; None if none runs.

    The socket tells who serves it, so no process id has to be stored, which another process could get.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS)
        try:
            _connect(connection, folder)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            yield None
            return
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        life = Life.of(struct.unpack("3i", packed)[0])
        if life is None:  # it ended just now
            yield None
            return
        made = Control(connection, life)
        try:
            made.read()  # the greeting
        except OSError as error:
            raise ToolchainError(f"{folder / SOCKET}: QEMU does not answer: {error}") from error
        made.execute("qmp_capabilities")
        yield made


def _connect(connection: socket.socket, folder: Path) -> None:
    """Connect by a short path: an address has at most 108 bytes (unix(7))."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{handle}/{SOCKET}")
    finally:
        os.close(handle)
