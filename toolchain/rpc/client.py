"""A client of the tracker; every request has a timeout."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from toolchain.errors import ToolchainError
from toolchain.rpc import frames
from toolchain.rpc.frames import FrameError, TrackerCode

_ANSWER_S = 5.0


@dataclass(frozen=True)
class Grant:
    """A granted server: its address and the key for one session with it."""

    host: str
    port: int
    match_key: str


class TrackerClient:
    """A connection to the tracker at `host:port`.

    Raises
    ------
    ToolchainError
        No program answers there in time, or it is not a tracker.
    """

    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout=_ANSWER_S)
        except OSError as error:
            raise self._lost(error) from error
        try:
            self._socket.sendall(frames.MAGIC)
            if self._receive(len(frames.MAGIC), time.monotonic() + _ANSWER_S) != frames.MAGIC:
                raise FrameError("the program there is not a tracker")
        except (OSError, FrameError) as error:
            self.close()
            raise self._lost(error) from error

    def summary(self) -> dict[str, dict[str, int]]:
        """Return the numbers of total and free servers and of pending requests per key."""
        answer = self._ask(_ANSWER_S, TrackerCode.SUMMARY)
        keys = {
            key: {"total": 0, "free": int(queue["free"]), "pending": int(queue["pending"])}
            for key, queue in answer[1]["queue_info"].items()
        }
        for server in answer[1]["server_info"]:
            key = server["key"].split(":", 1)[1]
            keys.setdefault(key, {"total": 0, "free": 0, "pending": 0})["total"] += 1
        return keys

    def boards(self, key: str) -> dict[str, int]:
        """Return board -> port of its server, for the servers registered under a key."""
        servers = self._ask(_ANSWER_S, TrackerCode.SUMMARY)[1]["server_info"]
        return {str(s["board"]): int(s["addr"][1]) for s in servers if s["key"] == f"server:{key}"}

    def request(
        self, key: str, wait_s: float, priority: int = 1, ttl_s: float = frames.UNSAID_TTL_S
    ) -> Grant | None:
        """Wait for a free server; return None on timeout.

        After a timeout close the connection, which withdraws the request.

        Parameters
        ----------
        key
            Of the boards, or `KEY@BOARD` for a certain one.
        wait_s
            Seconds to wait.
        priority
            Higher ones are served first.
        ttl_s
            Seconds for which the server may be kept; then the lab takes it back.
        """
        user = frames.user_text(f"process {os.getpid()}", ttl_s)
        try:
            _, (host, port, match_key) = self._ask(wait_s, TrackerCode.REQUEST, key, user, priority)
        except TimeoutError:
            self.close()
            return None
        return Grant(str(host), int(port), str(match_key))

    def cut(self) -> None:
        """Interrupt a request in another thread, which then sees a lost connection."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection and withdraw its requests."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, wait_s: float, *message: Any) -> Any:
        deadline = time.monotonic() + wait_s
        try:
            self._socket.settimeout(_ANSWER_S)
            self._socket.sendall(frames.encode(message))
            header = self._receive(frames.HEADER_BYTES, deadline)
            size = frames.body_size(header, frames.MAX_REPLY_BYTES)
            return frames.decode(self._receive(size, max(deadline, time.monotonic() + _ANSWER_S)))
        except TimeoutError:
            if message[0] is TrackerCode.REQUEST:
                raise
            raise self._lost("no answer in time") from None
        except (OSError, FrameError) as error:
            raise self._lost(error) from error

    def _receive(self, count: int, deadline: float) -> bytes:
        data = b""
        while len(data) < count:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            part = self._socket.recv(count - len(data))
            if not part:
                raise FrameError("it closed the connection")
            data += part
        return data

    def _lost(self, reason: object) -> ToolchainError:
        return ToolchainError(
            f"no tracker answers at {self.address}: {reason}", "see `toolchain lab status`, then `lab start`"
        )
