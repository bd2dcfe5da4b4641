"""The port at which one board's server, and no other, registers with the tracker."""

from __future__ import annotations

import asyncio
import hmac
import socket
import time
from collections.abc import Callable

from toolchain.rpc.frames import FrameError

_LOOK_S = 0.01


class Door:
    """Authenticates the server of one board.

    On the board, the way to the tracker is a loopback port to which every account of the board can connect.
    Only the server knows the secret that it has printed on its own output.

    Parameters
    ----------
    key
        `KEY@BOARD`, the only key that the server may have.

    Attributes
    ----------
    port
        Port of the door on this host's loopback.
    secret
        The server's secret; None until the server has printed it.
    connect
        Opens a connection to the server through this host's own port or tunnel to it; the address that the
        server itself claims is ignored.
    lied
        Called with what the server did if it violates the protocol.
    server
        Task of the tracker that handles the server which passed `admit` last.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.name = f"board {key.rpartition('@')[2]}: its server"
        self.port = 0
        self.secret: str | None = None
        self.connect: Callable[[], socket.socket] = _unknown
        self.lied: Callable[[str], object] = _ignore
        self.server: asyncio.Task[None] | None = None

    async def admit(self, key: str, secret: object, patience_s: float) -> None:
        """Check that a server that registers belongs to this board.

        Raises
        ------
        FrameError
            It has another board's key or a wrong secret.
        """
        if key != self.key:
            raise FrameError(f"{self.key} registers as {key!r}")
        deadline = time.monotonic() + patience_s
        while self.secret is None and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_S)
        told = secret if isinstance(secret, str) else ""
        if self.secret is None or not hmac.compare_digest(told.encode(), self.secret.encode()):
            raise FrameError(f"{self.key} registers without its secret")


def _unknown() -> socket.socket:
    raise OSError("nothing is known of it")


def _ignore(_: str) -> None:
    pass
