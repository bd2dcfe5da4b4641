"""A TCP proxy on loopback that delays, throttles, stalls and cuts."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

_PIECE = 1 << 14


class Proxy:
    """Forwards every connection to a port of loopback.

    Attributes
    ----------
    delay_s
        Before a new connection is forwarded.
    rate
        Bytes per second towards the server; None: all it can.
    cut_after
        Bytes towards the server after which every connection is cut, once; None: never.
    sent
        Bytes that all connections together have sent towards the server.
    """

    def __init__(self, port: int) -> None:
        self.delay_s = 0.0
        self.rate: float | None = None
        self.cut_after: int | None = None
        self.sent = 0
        self._target = port
        self._sockets: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End every connection at once."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        self._sockets.append(client)
        time.sleep(self.delay_s)
        with contextlib.suppress(OSError):
            server = socket.create_connection(("127.0.0.1", self._target), 5)
            server.settimeout(None)
            self._sockets.append(server)
            threading.Thread(target=self._copy, args=(server, client, False), daemon=True).start()
            self._copy(client, server, True)

    def _copy(self, source: socket.socket, sink: socket.socket, towards_server: bool) -> None:
        sent = 0
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE):
                sink.sendall(data)
                sent += len(data)
                if towards_server:
                    self.sent += len(data)
                    if self.rate:
                        time.sleep(len(data) / self.rate)
                    if self.cut_after is not None and sent >= self.cut_after:
                        self.cut_after = None
                        self.cut()
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    """Run a proxy to a port of loopback."""
    running = Proxy(port)
    try:
        yield running
    finally:
        running.close()
