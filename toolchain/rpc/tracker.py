"""A tracker that TVM's clients and servers, and edge-rt, can talk to; on loopback only.

`python -m toolchain.rpc.tracker [--port P]` runs one alone until SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import json
import logging
import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

from toolchain.errors import ToolchainError
from toolchain.rpc import frames
from toolchain.rpc.frames import Code, FrameError
from toolchain.rpc.registry import Offer, Registry

log = logging.getLogger(__name__)

_HANDSHAKE_S = 3.0
_MESSAGE_S = 10.0  # for a message that has begun to arrive, or a reply to be taken
_MAX_CONNECTIONS = 512
_MAX_WAITS = 16  # requests of one connection
_LOOPBACK = ("127.", "::1", "localhost")
_MAX_PORT = 65535


class Tracker:
    """Answers servers and clients inside a running event loop.

    Parameters
    ----------
    expected
        Keys that are listed even while no server has them.
    """

    def __init__(self, expected: Iterable[str] = ()) -> None:
        self.registry = Registry(expected)
        self.port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> None:
        """Listen on a port of 127.0.0.1, any free one for 0.

        Raises
        ------
        ToolchainError
            The port is taken (names by whom, where that can be seen) or not allowed.
        """
        try:
            self._server = await asyncio.start_server(
                self._accept, frames.HOST, port, limit=frames.MAX_REQUEST_BYTES, backlog=_MAX_CONNECTIONS
            )
        except OSError as error:
            raise _cannot_listen(port, error) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End every connection and stop listening."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= _MAX_CONNECTIONS:
            writer.close()
            return
        self._connections.add(task)
        peer = writer.get_extra_info("peername")
        try:
            await self._serve(reader, writer)
        except (FrameError, TimeoutError) as error:
            log.warning("dropped %s: %s", peer, str(error) or "too slow")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # it ended the connection
        except asyncio.CancelledError:
            pass  # we are closing; asyncio.streams would report it as an error
        finally:
            self._connections.discard(task)
            self.registry.forget(writer)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HANDSHAKE_S):
            if await reader.readexactly(len(frames.MAGIC)) != frames.MAGIC:
                raise FrameError("not the tracker protocol")
        writer.write(frames.MAGIC)
        while True:
            header = await reader.readexactly(frames.HEADER_BYTES)  # idle peers may be silent
            async with asyncio.timeout(_MESSAGE_S):
                body = await reader.readexactly(frames.body_size(header, frames.MAX_REQUEST_BYTES))
                try:
                    code, arguments = frames.decode_request(body)
                    self._handle(code, arguments, writer)
                except (TypeError, ValueError, LookupError, OverflowError) as error:
                    raise FrameError(f"a malformed request: {error!r}") from error
                await writer.drain()

    def _handle(self, code: Code, arguments: list[Any], writer: asyncio.StreamWriter) -> None:
        if code is Code.REQUEST:
            self._wait(arguments, writer)  # answered when there is a server
            return
        reply: Any = Code.SUCCESS
        if code is Code.PUT:
            self._put(arguments, writer)
        elif code is Code.UPDATE_INFO:
            self._update(arguments, writer)
        elif code is Code.SUMMARY:
            reply = [Code.SUCCESS, self.registry.summary()]
        elif code is Code.GET_PENDING_MATCHKEYS:
            reply = self.registry.match_keys(writer)
        elif code is not Code.PING:
            reply = Code.FAIL  # STOP included: who started this tracker ends it
        writer.write(frames.encode(reply))

    def _put(self, arguments: list[Any], writer: asyncio.StreamWriter) -> None:
        key, (port, match_key), *rest = arguments
        host = _host(rest[0] if rest else None)
        self.registry.offer(_text(key), Offer(writer, host, _port(port), _text(match_key)))

    def _update(self, arguments: list[Any], writer: asyncio.StreamWriter) -> None:
        role, key = _text(arguments[0]["key"]).split(":", 1)
        if role != "server":
            raise FrameError(f"a {role!r} registers")
        host, port = arguments[0]["addr"]
        self.registry.register(writer, key, _host(host), _port(port))

    def _wait(self, arguments: list[Any], writer: asyncio.StreamWriter) -> None:
        key, user, priority = arguments
        who, ttl_s = frames.parse_user(user)
        if self.registry.waits(writer) >= _MAX_WAITS:
            raise FrameError(f"more than {_MAX_WAITS} requests at once")

        def deliver(offer: Offer) -> bool:
            if writer.is_closing():
                return False
            reply = [Code.SUCCESS, [offer.host, offer.port, offer.match_key]]
            writer.write(frames.encode(reply))
            return True

        self.registry.request(writer, _text(key), int(priority), deliver, who, ttl_s)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise FrameError(f"{value!r} is no key")
    return value


def _port(value: Any) -> int:
    if type(value) is not int or not 0 < value <= _MAX_PORT:
        raise FrameError(f"{value!r} is no port")
    return value


def _host(value: Any) -> str:
    if value is None:
        return frames.HOST
    if not _text(value).startswith(_LOOPBACK):
        raise FrameError(f"a server at {value}: sessions stay on loopback")
    return str(value)


def _cannot_listen(port: int, error: OSError) -> ToolchainError:
    if error.errno == errno.EADDRINUSE:
        return ToolchainError(
            f"port {port} is in use{_holder(port)}", "end that program, or choose another port (0: any)"
        )
    reason = os.strerror(error.errno) if error.errno else str(error)
    return ToolchainError(f"cannot listen on {frames.HOST}:{port}: {reason}", "choose another port (0: any)")


def _holder(port: int) -> str:
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            at_port = connection.laddr and connection.laddr.port == port
            if at_port and connection.status == psutil.CONN_LISTEN and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return ""


async def _run(port: int) -> None:
    tracker = Tracker()
    await tracker.start(port)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print(json.dumps({"host": frames.HOST, "port": tracker.port, "pid": os.getpid()}), flush=True)
    await stop.wait()
    await tracker.close()


def main() -> int:
    """Run a tracker alone; prints one line of JSON once it listens."""
    parser = argparse.ArgumentParser(description=_run.__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    try:
        asyncio.run(_run(parser.parse_args().port))
    except ToolchainError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
