"""A server of the page in a thread, and a client that says what it likes."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from tests.waiting import PATIENCE_S
from toolchain.ui.server import PageServer, listen

TOKEN = "s3cret-Token_of-this-test"  # noqa: S105


@dataclass(frozen=True)
class Answer:
    """An answer: its status, its headers by lower-case name, its body."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Served:
    """A page that is served."""

    port: int
    server: PageServer

    def connect(self) -> socket.socket:
        """Return a new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def get(self, path: str = f"/{TOKEN}/", *, method: str = "GET", **headers: str | None) -> Answer:
        """Send a request as a browser would, with other headers where they are given; None leaves one out."""
        return self.send(self.head(path, method, **headers))

    def head(self, path: str, method: str = "GET", **headers: str | None) -> bytes:
        """Return the bytes of a request."""
        named = {"Host": f"127.0.0.1:{self.port}", "Accept": "*/*"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}  # type: ignore[misc]
        lines = [f"{name}: {value}" for name, value in named.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1")

    def send(self, request: bytes) -> Answer:
        """Send bytes, and read the answer to its end."""
        with self.connect() as connection:
            connection.sendall(request)
            with connection.makefile("rb") as stream:
                return read_answer(stream, to_the_end=True)

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.port}/{TOKEN}/"

    @contextmanager
    def stream(self) -> Iterator[Iterator[tuple[str, Any]]]:
        """Open the stream of events, as `EventSource` does; yield an iterator of names and data."""
        with self.connect() as connection:
            connection.sendall(self.head(f"/{TOKEN}/events"))
            with connection.makefile("rb") as stream:
                answer = read_answer(stream, to_the_end=False)
                assert (answer.status, answer.headers["content-type"]) == (
                    200,
                    "text/event-stream; charset=utf-8",
                )
                yield events(stream)


def read_answer(stream: BinaryIO, *, to_the_end: bool) -> Answer:
    """Read an answer's head, and its body if `to_the_end`."""
    status = int(stream.readline().split()[1])
    headers = {}
    while (line := stream.readline().decode().strip()) != "":
        name, _, value = line.partition(": ")
        headers[name.lower()] = value
    return Answer(status, headers, stream.read() if to_the_end else b"")


def events(stream: BinaryIO) -> Iterator[tuple[str, Any]]:
    """Yield events by the rules of server-sent events."""
    name, data = "", ""
    for raw in stream:
        line = raw.decode().removesuffix("\n")
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            data += value
        elif line == "" and name:
            yield name, json.loads(data)
            name, data = "", ""


@contextmanager
def served(port: int = 0) -> Iterator[Served]:
    """Serve the page until the block ends."""
    listening = listen(port)
    server, port = PageServer(listening, TOKEN), listening.getsockname()[1]
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    def work() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(server.run(stop))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield Served(port, server)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_S)
        listening.close()
        assert not thread.is_alive()
