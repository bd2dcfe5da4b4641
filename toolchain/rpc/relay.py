"""Relays one session between a client and a server, and checks the server's packets first."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable

from toolchain.rpc import owner, packets
from toolchain.rpc.packets import LieError, PacketCode, Question

log = logging.getLogger(__name__)

_GREETING_S = 10.0  # for both sides to say who they are; edge-rt gives up a silent client after 5 s
_DRAIN_S = 2.0  # to read and drop what a client still sends, so that it receives the last answer
_BUFFER = 1 << 16
_PIPE_BYTES = 1 << 20  # what an account without privileges may ask for
_INT = struct.Struct("<i")


class _EndedError(Exception):
    """One side has closed the connection."""


class _Source:
    """Reads one side; large content is spliced to the other side without passing through this process."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self._pipe: tuple[int, int] | None = None

    def take(self, count: int) -> bytes:
        """Return exactly `count` bytes."""
        while len(self._buffer) < count:
            self._fill(max(_BUFFER, count - len(self._buffer)))
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def move(self, count: int, to: socket.socket, before: bytes) -> None:
        """Send `before` and then the next `count` bytes to the other side."""
        if count <= _BUFFER:
            to.sendall(before + self.take(count))
            return
        held = min(count, len(self._buffer))
        to.sendall(before + self.take(held))
        left = count - held
        reading, writing = self._open_pipe()
        while left:
            there = os.splice(self._connection.fileno(), writing, left)
            if not there:
                raise _EndedError
            left -= there
            while there:
                there -= os.splice(reading, to.fileno(), there)

    def drain(self, seconds: float) -> None:
        """Read until the peer closes, so that closing our end does not discard its last answer."""
        self._connection.settimeout(seconds)
        with contextlib.suppress(OSError, _EndedError):
            while True:
                self._buffer.clear()
                self._fill(_BUFFER)

    def close(self) -> None:
        """Close the pipe, if there was need for one."""
        for end in self._pipe or ():
            os.close(end)
        self._pipe = None

    def _fill(self, most: int) -> None:
        data = self._connection.recv(min(most, _PIPE_BYTES))
        if not data:
            raise _EndedError
        self._buffer += data

    def _open_pipe(self) -> tuple[int, int]:
        if self._pipe is None:
            self._pipe = os.pipe2(os.O_CLOEXEC)
            with contextlib.suppress(OSError):  # the account has used up its share: 64 KiB will do
                fcntl.fcntl(self._pipe[1], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return self._pipe


class Relay:
    """A running session; its threads end when either side closes, or by `close`.

    Parameters
    ----------
    client, server
        The connections, which are closed at the end.
    lied
        Called once with the server's violation of the protocol, before the client is told. Not called if the
        server has loaded a library of the client: its damage is not the board's fault.
    """

    def __init__(
        self, client: socket.socket, server: socket.socket, name: str, lied: Callable[[str], object]
    ) -> None:
        self._client, self._server = client, server
        self._name = name
        self._lied = lied
        self._from_client, self._from_server = _Source(client), _Source(server)
        self._asked: deque[Question] = deque()
        self._reporting = False
        self._loaded = False  # or about to be
        self._answers = threading.Thread(target=self._run, name=f"answers of {name}", daemon=True)
        self._questions = threading.Thread(target=self._ask, name=f"questions to {name}", daemon=True)

    def start(self) -> None:
        """Start the session's threads."""
        self._answers.start()

    def alive(self) -> bool:
        """Whether the session is running."""
        return self._answers.is_alive()

    def close(self) -> None:
        """End the session; its threads close the connections."""
        if self._reporting:  # it ends, once the client has been told why
            return
        for connection in (self._client, self._server):
            _shut(connection)

    def join(self, seconds: float) -> None:
        """Wait until its threads have ended."""
        self._answers.join(seconds)

    def _run(self) -> None:
        try:
            self._greet()
            self._questions.start()
            self._answer()
        except LieError as lie:
            self._report(str(lie))
        except (_EndedError, OSError):
            pass
        finally:
            _shut(self._server)
            with contextlib.suppress(OSError):  # the last answer has been sent
                self._client.shutdown(socket.SHUT_WR)
            if self._questions.ident is not None:
                self._questions.join(_DRAIN_S + _GREETING_S)
            for source, connection in ((self._from_client, self._client), (self._from_server, self._server)):
                _shut(connection)
                source.close()
                connection.close()

    def _report(self, lie: str) -> None:
        if self._loaded:
            lie += ", once it had loaded a library for its client"
        log.warning("%s %s: the session ends", self._name, lie)
        self._reporting = True
        if not self._loaded:
            self._lied(lie)
        with contextlib.suppress(OSError):
            self._client.settimeout(_DRAIN_S)
            self._client.sendall(packets.exception(f"{self._name} {lie}: the session was ended"))

    def _greet(self) -> None:
        for connection in (self._client, self._server):
            if connection.family == socket.AF_INET:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(_GREETING_S)
        greeting = self._from_client.take(8)
        magic, length = struct.unpack("<ii", greeting)
        if magic != packets.MAGIC or not 0 < length <= packets.MAX_KEY_BYTES:
            raise _EndedError  # no client of TVM's
        self._server.sendall(greeting + self._from_client.take(length))
        answer = self._from_server.take(_INT.size)
        (code,) = _INT.unpack(answer)
        if code in packets.REFUSALS:
            # Whose that was cannot be asked: who refuses has closed by now. No more is passed on.
            self._client.sendall(answer)
            raise _EndedError
        # Not before it has answered: a connection that nobody has accepted yet is nobody's.
        if self._server.family == socket.AF_INET and (reason := owner.refusal(self._server)):
            log.warning("%s: who answers at its port is not ours: %s", self._name, reason)
            raise _EndedError
        if code != packets.MAGIC:
            raise LieError(f"is no server of TVM's: it greeted with {code:#x}")
        size = self._from_server.take(_INT.size)
        (length,) = _INT.unpack(size)
        if not 0 <= length <= packets.MAX_KEY_BYTES:
            raise LieError(f"announced a name of {length} bytes")
        self._client.sendall(answer + size + self._from_server.take(length))
        for connection in (self._client, self._server):
            connection.settimeout(None)  # how long a session lasts is the lease's matter

    def _answer(self) -> None:
        while True:
            header = self._from_server.take(packets.HEADER.size)
            size, code = packets.HEADER.unpack(header)
            question = self._asked[0] if self._asked else None
            packets.check_header(size, code, question)
            count = size - packets.CODE_BYTES
            if code == PacketCode.COPY_ACK:
                self._from_server.move(count, self._client, header)
            else:
                body = self._from_server.take(count)
                packets.check_answer(code, body, question)
                self._client.sendall(header + body)
            if question is None:
                raise _EndedError  # an exception that answers nothing is a server's last word
            self._asked.popleft()

    def _ask(self) -> None:
        try:
            while True:
                header = self._from_client.take(packets.HEADER.size)
                size, code = packets.HEADER.unpack(header)
                if not packets.CODE_BYTES <= size <= packets.MAX_QUESTION_BYTES:
                    raise _EndedError
                count = size - packets.CODE_BYTES
                if code == PacketCode.COPY_FROM_REMOTE:
                    if size > packets.MAX_COPY_QUESTION_BYTES:
                        raise _EndedError
                    body = self._from_client.take(count)
                    self._asked.append(Question(PacketCode(code), packets.copied_bytes(body)))
                    self._server.sendall(header + body)
                elif code == PacketCode.GET_GLOBAL_FUNC:
                    if size > packets.MAX_NAME_QUESTION_BYTES:
                        raise _EndedError
                    body = self._from_client.take(count)
                    self._loaded = self._loaded or packets.LOADS in body
                    self._asked.append(Question(PacketCode(code)))
                    self._server.sendall(header + body)
                elif code in packets.QUESTIONS:
                    self._asked.append(Question(PacketCode(code)))
                    self._from_client.move(count, self._server, header)
                else:
                    raise _EndedError
        except (_EndedError, ValueError):
            _shut(self._server)  # the client has gone, or is none
        except OSError:  # the server has: what the client still sends must not cost it the last answer
            self._from_client.drain(_DRAIN_S)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
