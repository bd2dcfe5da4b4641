"""The port at which one board's server registers with the tracker; nothing but that server gets in."""

from __future__ import annotations

import asyncio
import hmac
import socket
import time
from collections.abc import Callable

from toolchain.rpc.frames import FrameError

_LOOK_S = 0.01


class Door:
    """One board's way to the tracker.

    The board's end of it is a port of the board's loopback, at which every account of the board may knock.
    The server alone knows the secret that it has told on its own output.

    Parameters
    ----------
    key
        `KEY@BOARD`: its server has this one and no other.

    Attributes
    ----------
    port
        Of this host's loopback.
    secret
        What the server has told; None until then.
    connect
        Connects to the server, wherever it says that it is.
    lied
        Told what the server did when it says what no server says.
    server
        Who answers the server that was admitted last.
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
        """Check that a server which registers is this board's.

        Raises
        ------
        FrameError
            It has another board's key, or not the secret.
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
