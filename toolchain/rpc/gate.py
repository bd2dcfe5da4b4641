"""The port of this host through which clients reach a server, whose packets are checked here."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable

from toolchain.rpc import owner
from toolchain.rpc.frames import HOST
from toolchain.rpc.relay import Relay

log = logging.getLogger(__name__)

_BACKLOG = 16
_MOST_SESSIONS = 16  # a server has one session at a time; the others are ending
_END_S = 5.0


class Gate:
    """Listens until closed; each connection of the lab's owner becomes one session with the server.

    Parameters
    ----------
    name
        Name of the server for messages.
    connect
        Connects to the server.
    lied
        Called with what the server did if it violates the protocol; that session has ended by then.

    Attributes
    ----------
    port
        Of 127.0.0.1.
    """

    def __init__(
        self, name: str, connect: Callable[[], socket.socket], lied: Callable[[str], object]
    ) -> None:
        self._name = name
        self._connect = connect
        self._lied = lied
        self._relays: list[Relay] = []
        self._listener = socket.create_server((HOST, 0), backlog=_BACKLOG)
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._run, name=f"gate of {name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all sessions and stop listening; return at once, `join` waits."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closes it
        for relay in list(self._relays):
            relay.close()

    def join(self) -> None:
        """Wait until a closed gate's threads have ended."""
        self._thread.join(_END_S)
        for relay in list(self._relays):
            relay.join(_END_S)

    def _run(self) -> None:
        with self._listener:
            while True:
                try:
                    client, _ = self._listener.accept()
                except OSError:  # closed
                    break
                self._relays = [relay for relay in self._relays if relay.alive()]
                self._begin(client)
        for relay in list(self._relays):
            relay.close()

    def _begin(self, client: socket.socket) -> None:
        reason = owner.refusal(client)
        if reason is None and len(self._relays) >= _MOST_SESSIONS:
            reason = f"{_MOST_SESSIONS} sessions are under way"
        server: socket.socket | None = None
        try:
            if reason is None:
                server = self._connect()
        except OSError as error:
            reason = f"the server is not reached: {error.strerror or error}"
        if server is None:
            log.warning("%s: a session was refused: %s", self._name, reason)
            client.close()
            return
        relay = Relay(client, server, self._name, self._lied)
        self._relays.append(relay)
        relay.start()
