"""A tracker for one server: it takes the offers, and hands out the last one."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from toolchain.rpc import frames
from toolchain.rpc.frames import TrackerCode


class FrugalTracker:
    """Listens on a port of its own while it is open."""

    def __init__(self) -> None:
        self._listener = socket.create_server((frames.HOST, 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._changed = threading.Condition()
        self._offer: tuple[int, str] | None = None
        self.introduction: dict[str, Any] = {}

    def __enter__(self) -> FrugalTracker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{frames.HOST}:{self._listener.getsockname()[1]}"

    def offer(self, seconds: float) -> tuple[int, str]:
        """Return port and match key of the server, and take them off the list."""
        self.await_offer(seconds)
        with self._changed:
            assert self._offer
            taken, self._offer = self._offer, None
        return taken

    def await_offer(self, seconds: float) -> None:
        """Wait until the server offers itself."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._offer, seconds), "the server does not offer itself"

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                server, _ = self._listener.accept()
                with server, suppress(OSError, struct.error), server.makefile("rb") as said:
                    server.sendall(said.read(len(frames.MAGIC)))
                    while head := said.read(4):
                        (size,) = struct.unpack("<i", head)
                        server.sendall(frames.encode(self._answer(json.loads(said.read(size)))))

    def _answer(self, request: Sequence[Any]) -> object:
        if request[0] == TrackerCode.UPDATE_INFO:
            self.introduction = request[1]
        elif request[0] == TrackerCode.PUT:
            with self._changed:
                self._offer = (request[2][0], request[2][1])
                self._changed.notify_all()
        elif request[0] == TrackerCode.GET_PENDING_MATCHKEYS:
            return [self._offer[1]] if self._offer else []
        return 0
