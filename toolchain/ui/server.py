"""The server of the page: a few connections at a time, each with deadlines."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Sequence
from http import HTTPStatus

from toolchain.errors import ToolchainError
from toolchain.events.folder import events_folder
from toolchain.rpc import owner
from toolchain.ui.page import page, security_headers
from toolchain.ui.request import MOST_HEAD, PageRefusedError, check_request, parse_request
from toolchain.ui.stream import send_events

LOOPBACK = "127.0.0.1"
MOST_CONNECTIONS = 32
"""Largest number of connections at a time; one more is closed at once."""

MOST_STREAMS = 5
"""Largest number of open pages; a browser opens six connections to a host, and one must be left to say so."""

MOST_FOREIGN = 4
"""Largest number of other accounts' connections that are refused with a word at a time; others without."""

HEAD_S = 5.0
"""Seconds in which a request must have come."""

WRITE_S = 10.0
"""Seconds in which a reader must take what it is sent."""

LINGER_S = 0.5
"""Seconds for which the rest of a refused request is read: to close before would take the answer away."""

_TEXT = "text/plain; charset=utf-8"


def listen(port: int = 0) -> socket.socket:
    """Return a socket that listens on loopback; `port` 0 takes a free one.

    Raises
    ------
    ToolchainError
        The port is taken, or may not be used.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen(MOST_CONNECTIONS)
    except OSError as error:
        listening.close()
        raise ToolchainError(
            f"port {port}: cannot listen on {LOOPBACK}: {error.strerror}",
            "leave --port out to get a free one",
        ) from error
    return listening


def serve_page(server: PageServer) -> None:
    """Serve the page until SIGINT, SIGTERM or SIGHUP; close the server's socket."""
    asyncio.run(_serve_until_signal(server))


async def _serve_until_signal(server: PageServer) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` sets SIG_IGN, which must stay
            loop.add_signal_handler(number, stop.set)
    await server.run(stop)


class PageServer:
    """Answers requests for the page and its stream of events.

    Parameters
    ----------
    listening
        A listening socket.
    token
        The secret that each request's path must begin with.

    Raises
    ------
    ToolchainError
        The settings, which say where the event logs are, cannot be read.
    """

    def __init__(self, listening: socket.socket, token: str) -> None:
        self._listening = listening
        self._port = int(listening.getsockname()[1])
        self._token = token
        self._events = events_folder()  # once: whoever edits the settings meanwhile breaks no stream
        self._connections: set[asyncio.Task[None]] = set()
        self._foreign: set[asyncio.Task[None]] = set()
        self._streams = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set; then close every connection."""
        server = await asyncio.start_server(self._connected, sock=self._listening, limit=MOST_HEAD)
        try:
            await stop.wait()
        finally:
            server.close()
            connections = self._connections | self._foreign
            for connection in connections:
                connection.cancel()
            await asyncio.gather(*connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None  # noqa: S101 - asyncio runs this as a task
        # Every account of this host can connect; the token is checked as well. What others open is counted by
        # itself: they must not keep the owner out.
        refused = owner.refusal(writer.get_extra_info("socket"))
        counted, most = (self._foreign, MOST_FOREIGN) if refused else (self._connections, MOST_CONNECTIONS)
        counted.add(connection)
        try:
            if len(counted) <= most:
                writer.transport.set_write_buffer_limits(high=0)  # `drain` waits until the kernel has it all
                await self._answer(reader, writer, refused)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the browser went away, or is too slow
        except asyncio.CancelledError:
            pass  # by `run`; asyncio's own callback of Python 3.11 complains about a cancelled task
        finally:
            counted.discard(connection)
            writer.transport.abort()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refused: str | None
    ) -> None:
        has_body = True
        try:
            if refused:
                raise PageRefusedError(HTTPStatus.FORBIDDEN, f"this connection is refused: {refused}")
            request = parse_request(await _read_head(reader))
            has_body = request.method != "HEAD"
            path = check_request(request, self._port, self._token)
            if path == "events":
                await self._stream(reader, writer)
            elif path == "":
                await _send(reader, writer, HTTPStatus.OK, "text/html; charset=utf-8", page())
            else:
                raise PageRefusedError(HTTPStatus.NOT_FOUND, "there is no such page")
        except PageRefusedError as error:
            body = f"{error.reason}\n".encode() if has_body else b""
            await _send(reader, writer, error.status, _TEXT, body)

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._streams >= MOST_STREAMS:
            reason = f"this page is open {self._streams} times already, which is the most: close one of them"
            raise PageRefusedError(HTTPStatus.SERVICE_UNAVAILABLE, reason)

        async def send(data: bytes) -> None:
            writer.write(data)
            async with asyncio.timeout(WRITE_S):
                await writer.drain()

        self._streams += 1
        try:
            await send(_head(HTTPStatus.OK, [("Content-Type", "text/event-stream; charset=utf-8")]))
            await send_events(send, reader.at_eof, self._events)
        finally:
            self._streams -= 1


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        async with asyncio.timeout(HEAD_S):
            return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        raise PageRefusedError(status, "the request is too long") from error


async def _send(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: HTTPStatus, kind: str, body: bytes
) -> None:
    writer.write(_head(status, [("Content-Type", kind), ("Content-Length", str(len(body)))]) + body)
    async with asyncio.timeout(WRITE_S):
        await writer.drain()
    writer.write_eof()
    async with asyncio.timeout(LINGER_S):
        while await reader.read(MOST_HEAD):
            pass


def _head(status: HTTPStatus, headers: Sequence[tuple[str, str]]) -> bytes:
    allow = [("Allow", "GET")] if status is HTTPStatus.METHOD_NOT_ALLOWED else []
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    everything = [*headers, *allow, *security_headers(), ("Connection", "close")]
    lines += [f"{name}: {value}" for name, value in everything]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
