"""The SSH protocol's messages on a socket: paramiko's, with what it lacks.

`Wire` speaks the whole protocol with a board's server. `MuxWire` speaks the part about channels alone, with
an OpenSSH client that has connected and logged in, at its control socket (PROTOCOL.mux, MUX_C_PROXY).
"""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import paramiko

SILENCE_S = 15.0  # a board that does not answer for that long is lost, on a link with short round trips
_ROUND_TRIPS = 4.0  # and for that many of the longest round trips lately, if that is longer
_FADES = 0.8  # how much of a long round trip is remembered at the next
_TICK_S = 0.5
UNKNOWN_SIGNAL = 127  # sshd names only the signals of RFC 4254

_MOST_UNREAD = 2 * paramiko.common.DEFAULT_WINDOW_SIZE  # of a channel: twice its flow-control window
_MOST_PACKET = 1 << 18  # of a client at its control socket: OpenSSH's own limit


class Link(Protocol):
    """A socket to a board or to a client that is connected to it; `close` ends what carries it."""

    socket: socket.socket

    def close(self) -> None:
        """Close the socket, and end what carries it."""

    def complaint(self) -> str:
        """Return the last line that the carrying program printed; empty while it runs or without one."""


class WatchedSocket:
    """A socket that fails once the board has been silent for too long.

    paramiko's reading thread calls it ten times a second, and so does every blocked writer; no thread of
    ours is needed to detect silence. Only time in which this process ran counts as silence.

    Attributes
    ----------
    cause
        Why the connection ended; None while it works. paramiko ends the channels, and wakes the threads that
        wait for them, before it reports the connection as inactive.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._longest = 0.0
        self.silence = 0.0
        self.limit = float("inf")
        self.cause: BaseException | None = None
        self._closed = False  # paramiko reads this attribute of sockets
        self._tick = time.monotonic()

    def begin(self, round_trip_s: float) -> None:
        """Watch for silence from now on; an answer took `round_trip_s` until now."""
        self.silence = 0.0
        self._longest = round_trip_s
        self.limit = max(SILENCE_S, _ROUND_TRIPS * round_trip_s)

    def answered(self, round_trip_s: float) -> None:
        """Take note of how long the answer to a request took: silence is judged by it."""
        if self.limit < float("inf"):
            self._longest = max(round_trip_s, _FADES * self._longest)
            self.limit = max(SILENCE_S, _ROUND_TRIPS * self._longest)

    def recv(self, size: int) -> bytes:
        try:
            data = self._link.socket.recv(size)
        except TimeoutError:
            self._judge()
            raise
        except OSError as error:
            self.cause = self.cause or error
            raise
        if not data:
            self.cause = self.cause or EOFError()
        self.silence = 0.0
        self._tick = time.monotonic()
        return data

    def send(self, data: bytes) -> int:
        try:
            return self._link.socket.send(data)
        except TimeoutError:
            self._judge()
            raise
        except OSError as error:
            self.cause = self.cause or error
            raise

    def settimeout(self, seconds: float | None) -> None:
        self._link.socket.settimeout(seconds)

    def close(self) -> None:
        self._closed = True
        # close() alone does not wake a thread that waits in recv or send.
        with contextlib.suppress(OSError):
            self._link.socket.shutdown(socket.SHUT_RDWR)

    def _judge(self) -> None:
        now = time.monotonic()
        self.silence += min(now - self._tick, _TICK_S)
        self._tick = now
        if self.silence > self.limit:
            # Not TimeoutError: paramiko would retry. paramiko also needs an errno beside the text.
            silent = f"nothing was heard from it for {self.limit:.3g} s"
            self.cause = self.cause or ConnectionAbortedError(errno.ECONNABORTED, silent)
            raise self.cause


def _note_exit_signal(channel: Any, message: Any) -> None:
    """Handle a channel request like paramiko, which drops the name of the signal that ended a command."""
    position = message.packet.tell()
    if message.get_text() != "exit-signal":
        message.packet.seek(position)
        paramiko.Channel._handle_request(channel, message)
        return
    message.get_boolean()
    name = f"SIG{message.get_text()}"
    channel.exit_signal = signal.Signals[name] if name in signal.Signals.__members__ else UNKNOWN_SIGNAL
    channel.status_event.set()


def _within_window(feed: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Wrap paramiko's data handler, which stores without limit: fail if a server exceeds the window."""

    def checked(channel: Any, message: Any) -> None:
        if len(channel.in_buffer) + len(channel.in_stderr_buffer) > _MOST_UNREAD:
            raise paramiko.SSHException("it sent more than it was allowed to")
        feed(channel, message)

    return checked


def _unless_probe(handle: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Wrap paramiko's handler of a channel's replies, which takes each one for that to its `exec`."""

    def checked(channel: Any, message: Any) -> None:
        round_trip_s = channel.in_flight.answered()
        if round_trip_s is None:
            handle(channel, message)
        else:
            channel.transport.sock.answered(round_trip_s)

    return checked


class Wire(paramiko.Transport):  # type: ignore[misc]
    """One end of a connection: paramiko's."""

    _channel_handler_table = {  # noqa: RUF012 - as in the class it refines
        **paramiko.Transport._channel_handler_table,
        paramiko.common.MSG_CHANNEL_DATA: _within_window(paramiko.Channel._feed),
        paramiko.common.MSG_CHANNEL_EXTENDED_DATA: _within_window(paramiko.Channel._feed_extended),
        paramiko.common.MSG_CHANNEL_REQUEST: _note_exit_signal,
        paramiko.common.MSG_CHANNEL_SUCCESS: _unless_probe(paramiko.Channel._request_success),
        paramiko.common.MSG_CHANNEL_FAILURE: _unless_probe(paramiko.Channel._request_failed),
    }

    def _parse_disconnect(self, message: Any) -> None:
        message.get_int()
        self.sock.cause = self.sock.cause or EOFError(message.get_text())


class _PlainPacketizer(paramiko.Packetizer):  # type: ignore[misc]
    """Packets without encryption and padding, between which no keys are exchanged."""

    def __init__(self, sock: WatchedSocket) -> None:
        super().__init__(sock)
        self._writing = threading.Lock()
        self._number = 0

    def start_handshake(self, timeout: float) -> None:
        """Do nothing: the client has done it."""

    def need_rekey(self) -> bool:
        return False

    def write_all(self, out: bytes) -> None:
        """Write no version line."""

    def send_message(self, data: Any) -> None:
        payload = data.asbytes()
        with self._writing:
            super().write_all(struct.pack(">IB", len(payload) + 1, 0) + payload)

    def read_message(self) -> tuple[int, Any]:
        size = int.from_bytes(self.read_all(4), "big")
        if not 2 <= size <= _MOST_PACKET:
            raise paramiko.SSHException(f"the OpenSSH client sent a packet of {size} bytes")
        packet = self.read_all(size)
        message = paramiko.Message(packet[2:])
        message.seqno = self._number
        self._number += 1
        return packet[1], message


class MuxWire(Wire):
    """Carries paramiko's channels through an OpenSSH client, which has done all that comes before."""

    def __init__(self, sock: WatchedSocket) -> None:
        super().__init__(sock, packetizer_class=_PlainPacketizer)

    def _check_banner(self) -> None:
        """Expect none."""

    def _send_kex_init(self) -> None:
        self.initial_kex_done = True
        self.clear_to_send.set()

    def _expect_packet(self, *_: int) -> None:
        """Expect no exchange of keys."""
