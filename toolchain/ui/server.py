"""The server of the page: a few connections at a time, each with deadlines."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import signal
import socket
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path

from toolchain.errors import ToolchainError
from toolchain.events.log import events_folder
from toolchain.rpc import owner
from toolchain.ui.stream import send_events

# The page, and the headers with which it is sent.

_FILE = Path(__file__).with_name("page.html")
_INLINE = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


@lru_cache(maxsize=1)
def page() -> bytes:
    """Return the static page; its data come by the event stream."""
    return _FILE.read_bytes()


@lru_cache(maxsize=1)
def security_headers() -> tuple[tuple[str, str], ...]:
    """Return the headers of every answer. A browser runs the page's own script and nothing else."""
    hashes: dict[bytes, str] = {}
    for kind, text in _INLINE.findall(page()):
        hashes[kind] = f"'sha256-{b64encode(hashlib.sha256(text).digest()).decode()}'"
    policy = {
        "default-src": "'none'",
        "script-src": hashes[b"script"],
        "style-src": hashes[b"style"],
        "img-src": "data:",  # the icon
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return (
        ("Content-Security-Policy", "; ".join(f"{name} {value}" for name, value in policy.items())),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    )


# Reads the head of an HTTP request, and refuses requests that may not come from our page.

HTTP_PORT = 80
"""The port that an address without one means."""

MOST_HEAD = 16 * 1024
"""Largest length in bytes of a request's head; browsers send less than 2 KiB."""

_REQUEST_LINE = re.compile(r"([A-Z]{1,16}) (/[!-~]{0,2048}) HTTP/1\.[01]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}):([ -~\t\x80-\xff]*)")


class PageRefusedError(Exception):
    """A refused request: its HTTP status, and the reason for the user."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class PageRequest:
    """The head of a request; names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


def parse_request(head: bytes) -> PageRequest:
    """Parse the head of a request, up to the empty line.

    Raises
    ------
    PageRefusedError
        The data are not an HTTP request, or have a header twice.
    """
    first, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    headers: dict[str, str] = {}
    for line in rest:
        header = _HEADER.fullmatch(line)
        if header is None or header[1].lower() in headers:
            raise PageRefusedError(HTTPStatus.BAD_REQUEST, "this is no request of a browser")
        headers[header[1].lower()] = header[2].strip(" \t")
    if match is None:
        raise PageRefusedError(HTTPStatus.BAD_REQUEST, "this is no request of a browser")
    return PageRequest(match[1], match[2], headers)


def check_request(request: PageRequest, port: int, token: str) -> str:
    """Return the path below the token's folder.

    Raises
    ------
    PageRefusedError
        The request has another method than GET, names another host (DNS rebinding), comes from another
        site's page, or lacks the token.
    """
    if request.method != "GET":
        raise PageRefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered")
    names = ("127.0.0.1", "localhost", "[::1]")
    hosts = {f"{name}:{port}" for name in names}
    if port == HTTP_PORT:  # browsers leave it out
        hosts.update(names)
    if request.headers.get("host", "").lower() not in hosts:
        raise PageRefusedError(HTTPStatus.FORBIDDEN, f"this page is at 127.0.0.1:{port}, under no other name")
    origin = request.headers.get("origin")
    if origin is not None and origin.lower().removeprefix("http://") not in hosts:
        raise PageRefusedError(HTTPStatus.FORBIDDEN, "another site's page may not read this one")
    mode, site = (request.headers.get(f"sec-fetch-{name}", "") for name in ("mode", "site"))
    if site not in ("", "none", "same-origin") and mode != "navigate":
        raise PageRefusedError(HTTPStatus.FORBIDDEN, "another site's page may not read this one")
    secret, slash, path = request.path.removeprefix("/").partition("/")
    if not secrets.compare_digest(secret.encode("latin-1"), token.encode()) or not slash:
        raise PageRefusedError(HTTPStatus.NOT_FOUND, "open the address that `toolchain ui` printed")
    return path


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
"""Seconds within which a client must read what it is sent."""

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
