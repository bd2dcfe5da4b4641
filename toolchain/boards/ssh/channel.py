"""A command's channel in an SSH connection, and how much is sent before the board has answered."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import Any, Protocol

import paramiko

from toolchain.boards.transport import LostError

START_S = 30.0  # until a board begins a command; one under load takes seconds
_LEAST = 1 << 15  # bytes that may always be on their way: four seconds of 64 kbit/s
_MOST = 1 << 22
_MOST_PIECE = 1 << 18
_SHORT_S, _LONG_S = 1.0, 4.0  # round trips at which more is sent, and less
_LOOK_S = 0.5
_PROBE = "keepalive@openssh.com"  # no server knows it as a request about a channel: it answers no


class ChannelOwner(Protocol):
    """The connection of a channel, whoever speaks with the server; `label` names the board."""

    label: str

    @property
    def alive(self) -> bool:
        """Whether it works, as far as is known."""

    def ended(self) -> bool:
        """Return whether it has ended, or does so shortly."""

    def lost(self) -> LostError:
        """Return the error for a connection that has ended."""


class InFlight:
    """Bounds the bytes on their way to a board, so that an answer never waits long behind them.

    A slow link's queues, and this host's own, take megabytes: everything that is sent after them, and each
    answer to it, waits for minutes, and the link cannot be told from a dead one. So each piece of data is
    followed by a request that the board answers when it has read the piece. As long as answers come soon,
    twice as many bytes are allowed on the way; when they come late, half as many.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._unanswered: deque[tuple[int, float]] = deque()
        self._on_way = 0
        self._allowed = _LEAST

    @property
    def piece(self) -> int:
        """Largest number of bytes before the next request."""
        return min(_MOST_PIECE, self._allowed // 2)

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` until another piece may be sent; return whether it may."""
        with self._changed:
            return self._changed.wait_for(lambda: self._on_way + self.piece <= self._allowed, seconds)

    def sending(self, size: int) -> None:
        """Take note of a piece that is sent now."""
        with self._changed:
            self._unanswered.append((size, time.monotonic()))
            self._on_way += size

    def answered(self) -> float | None:
        """Record the answer to the oldest request; return its round trip in seconds, None if none is open."""
        with self._changed:
            if not self._unanswered:
                return None
            size, sent_at = self._unanswered.popleft()
            self._on_way -= size
            seconds = time.monotonic() - sent_at
            if seconds < _SHORT_S:
                self._allowed = min(_MOST, self._allowed + size)
            elif seconds > _LONG_S:
                self._allowed = max(_LEAST, self._allowed // 2)
            self._changed.notify_all()
            return seconds


class Channel:
    """A command that runs on a board: its input, its output, its end."""

    def __init__(self, connection: ChannelOwner, raw: Any) -> None:
        self.connection = connection
        self._raw = raw
        raw.exit_signal = None
        raw.in_flight = InFlight()

    def execute(self, line: str) -> None:
        """Let the login shell execute a line.

        Raises
        ------
        TimeoutError, OSError, EOFError
            The board does not answer, refuses, or the connection ended.
        """
        raw = self._raw
        raw._event_pending()
        self._request("exec", line)
        if not raw.event.wait(START_S):
            raise TimeoutError
        if not raw.event_ready:
            raise EOFError("it refuses to run commands")

    def receive(self, most: int, seconds: float | None) -> bytes:
        """Return the next output, empty at its end; raise TimeoutError after `seconds`."""
        self._raw.settimeout(seconds)
        return bytes(self._raw.recv(most))

    def receive_errors(self, most: int) -> bytes:
        """Return the next output on standard error, empty at its end."""
        while True:
            try:
                return bytes(self._raw.recv_stderr(most))
            except TimeoutError:  # which was meant for standard output
                continue
            except (EOFError, OSError):
                return b""

    def send(self, data: bytes, patience_s: float) -> None:
        """Send input.

        Raises
        ------
        TimeoutError
            The command took nothing for `patience_s` seconds.
        OSError, EOFError
            It no longer reads its input, or the connection ended.
        """
        in_flight: InFlight = self._raw.in_flight
        view = memoryview(data)
        while view:
            deadline = time.monotonic() + patience_s
            while not in_flight.wait(min(_LOOK_S, patience_s)):
                self._check_open()
                if time.monotonic() >= deadline:
                    raise TimeoutError
            self._wait_for_window(deadline - time.monotonic())
            sent = self._raw.send(bytes(view[: in_flight.piece]))
            view = view[sent:]
            in_flight.sending(sent)
            self._request(_PROBE)

    def end_input(self) -> None:
        """End the command's input."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._raw.shutdown_write()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the end of the command or of the channel; return whether it came."""
        return bool(self._raw.status_event.wait(seconds))

    @property
    def code(self) -> int | None:
        """Code of a command that has ended, minus the signal's number if one ended it; None: unknown."""
        if self._raw.exit_signal is not None:
            return -int(self._raw.exit_signal)
        return None if self._raw.exit_status < 0 else int(self._raw.exit_status)

    def close(self) -> None:
        """Close the channel; the watcher on the board then ends the command."""
        with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
            self._raw.close()

    def _wait_for_window(self, seconds: float) -> None:
        """Wait until the board takes more; paramiko's own wait would be limited by what readers set."""
        raw = self._raw
        with raw.out_buffer_cv:
            if not raw.out_buffer_cv.wait_for(lambda: raw.closed or raw.out_window_size > 0, seconds):
                raise TimeoutError

    def _check_open(self) -> None:
        if self._raw.closed:
            raise OSError("the channel is closed")

    def _request(self, kind: str, argument: str | None = None) -> None:
        message = paramiko.Message()
        message.add_byte(paramiko.common.cMSG_CHANNEL_REQUEST)
        message.add_int(self._raw.remote_chanid)
        message.add_string(kind)
        message.add_boolean(True)
        if argument is not None:
            message.add_string(argument)
        self._check_open()
        self._raw.transport._send_user_message(message)
