"""Docker's socket under another name, until it is closed: a daemon that goes away."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

DOCKER_SOCKET = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")


class DockerProxy:
    """Passes everything on between the socket `file` and the daemon's."""

    def __init__(self, file: Path) -> None:
        self._sockets: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(file))
        self._listening.listen()
        self._file = file
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._file.unlink(missing_ok=True)
        for connection in (self._listening, *self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                daemon = socket.socket(socket.AF_UNIX)
                daemon.connect(DOCKER_SOCKET)
                self._sockets += [client, daemon]
                for source, target in ((client, daemon), (daemon, client)):
                    threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
