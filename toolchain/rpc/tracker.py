"""A tracker on loopback for edge-rt and for TVM's clients and servers.

Clients get the port of a gate, never the server's own port: the gate checks the server's packets. Each board
has its own door, at which only that board's server can register.

`python -m toolchain.rpc.tracker [--port P]` runs one alone until SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import ipaddress
import json
import logging
import os
import signal
import socket
import sys
from functools import partial
from typing import Any

from toolchain.errors import ToolchainError
from toolchain.rpc import frames, owner
from toolchain.rpc.door import Door
from toolchain.rpc.frames import FrameError, TrackerCode
from toolchain.rpc.gate import Gate
from toolchain.rpc.registry import Offer, Registry

log = logging.getLogger(__name__)

_HANDSHAKE_S = 3.0
_MESSAGE_S = 10.0  # for a message that has begun to arrive, or a reply to be taken
_SECRET_S = 1.5  # between a server's registration and what its own output says; it asks again after 2 s
_MAX_CONNECTIONS = 512
_MAX_AT_A_DOOR = 8
_MAX_WAITS = 16  # requests of one connection
_MAX_PORT = 65535
_CONNECT_S = 5.0
_AT_A_DOOR = frozenset(
    {TrackerCode.PING, TrackerCode.PUT, TrackerCode.UPDATE_INFO, TrackerCode.GET_PENDING_MATCHKEYS}
)


class Tracker:
    """Answers servers and clients inside a running event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop
        self.registry = Registry()
        self.port = 0
        self._servers: dict[Door | None, asyncio.Server] = {}
        self._connections: dict[asyncio.Task[None], Door | None] = {}
        self._gates: dict[asyncio.StreamWriter, tuple[str, Gate]] = {}

    async def start(self, port: int = 0) -> None:
        """Listen on a port of 127.0.0.1, any free one for 0.

        Raises
        ------
        ToolchainError
            The port is taken (names by whom, where that can be seen) or not allowed.
        """
        self._loop = asyncio.get_running_loop()
        self.port = await self._listen(port, None)

    async def open_door(self, key: str) -> Door:
        """Open a port for the one server with this key, `KEY@BOARD`."""
        door = Door(key)
        door.port = await self._listen(0, door)
        return door

    def close_door(self, door: Door) -> None:
        """Close a door and end the connections that came through it."""
        self._servers.pop(door).close()
        self._end_all(door)

    def end_server(self, door: Door) -> None:
        """Disconnect the server that came through a door; any thread may call this."""
        self._loop.call_soon_threadsafe(self._end_all, door)

    async def close(self) -> None:
        """End every connection and stop listening."""
        for server in self._servers.values():
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _end_all(self, door: Door) -> None:
        for task, came_through in self._connections.items():
            if came_through is door:
                task.cancel()

    async def _listen(self, port: int, door: Door | None) -> int:
        try:
            server = await asyncio.start_server(
                partial(self._accept, door),
                frames.HOST,
                port,
                limit=frames.MAX_REQUEST_BYTES,
                backlog=_MAX_CONNECTIONS,
            )
        except OSError as error:
            raise _cannot_listen(port, error) from error
        self._servers[door] = server
        return int(server.sockets[0].getsockname()[1])

    async def _accept(
        self, door: Door | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        here = [other for other, came_through in self._connections.items() if came_through is door]
        reason = owner.refusal(writer.get_extra_info("socket"))
        if task is None or reason is not None or (door is None and len(here) >= _MAX_CONNECTIONS):
            log.warning("refused a connection: %s", reason or f"{_MAX_CONNECTIONS} are open")
            writer.transport.abort()
            return
        if door is not None and len(here) >= _MAX_AT_A_DOOR:
            # Whoever holds them, it was not the server: that one has one, and says at once who it is.
            next((other for other in here if other is not door.server), here[0]).cancel()
        self._connections[task] = door
        peer = writer.get_extra_info("peername")
        try:
            await self._serve(reader, writer, door)
        except (FrameError, TimeoutError) as error:
            log.warning("dropped %s: %s", peer, str(error) or "too slow")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # it ended the connection
        except asyncio.CancelledError:
            pass  # we are closing; asyncio.streams would report it as an error
        finally:
            del self._connections[task]
            self._forget(writer)
            writer.transport.abort()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, door: Door | None
    ) -> None:
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
                    await self._handle(code, arguments, writer, door)
                except (TypeError, ValueError, LookupError, OverflowError) as error:
                    raise FrameError(f"a malformed request: {error!r}") from error
                except OSError as error:  # no port is left for a gate, or no file handle
                    raise FrameError(f"it cannot be served: {error}") from error
                await writer.drain()

    async def _handle(
        self, code: TrackerCode, arguments: list[Any], writer: asyncio.StreamWriter, door: Door | None
    ) -> None:
        if door is not None and code not in _AT_A_DOOR:
            raise FrameError(f"{door.key} asks as a client")
        if code is TrackerCode.REQUEST:
            self._wait(arguments, writer)  # answered when there is a server
            return
        reply: Any = TrackerCode.SUCCESS
        if code is TrackerCode.PUT:
            self._put(arguments, writer)
        elif code is TrackerCode.UPDATE_INFO:
            await self._update(arguments[0], writer, door)
        elif code is TrackerCode.SUMMARY:
            reply = [TrackerCode.SUCCESS, self.registry.summary()]
        elif code is TrackerCode.GET_PENDING_MATCHKEYS:
            reply = self.registry.match_keys(writer)
        elif code is not TrackerCode.PING:
            reply = TrackerCode.FAIL  # STOP included: who started this tracker ends it
        writer.write(frames.encode(reply))

    def _put(self, arguments: list[Any], writer: asyncio.StreamWriter) -> None:
        key, (_, match_key), *_ = arguments
        registered, gate = self._gates.get(writer, ("", None))
        if gate is None or registered != key:
            raise FrameError(f"an offer of {key!r}, which has not registered")
        self.registry.offer(registered, Offer(writer, frames.HOST, gate.port, _text(match_key)))

    async def _update(self, said: dict[str, Any], writer: asyncio.StreamWriter, door: Door | None) -> None:
        role, key = _text(said["key"]).split(":", 1)
        if role != "server":
            raise FrameError(f"a {role!r} registers")
        if writer in self._gates:
            raise FrameError(f"{key!r} registers twice")
        if door is None:
            host, port = said["addr"]
            connect = partial(socket.create_connection, (_host(host), _port(port)), _CONNECT_S)
            gate = Gate(f"server {key}", connect, partial(self._drop, writer))
        else:
            await door.admit(key, said.get("secret"), _SECRET_S)
            door.server = asyncio.current_task()
            gate = Gate(door.name, door.connect, door.lied)
        self._gates[writer] = key, gate
        self.registry.register(writer, key, frames.HOST, gate.port)

    def _drop(self, writer: asyncio.StreamWriter, _: str) -> None:
        self._loop.call_soon_threadsafe(writer.transport.abort)

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self.registry.forget(writer)
        _, gate = self._gates.pop(writer, (None, None))
        if gate is not None:
            gate.close()

    def _wait(self, arguments: list[Any], writer: asyncio.StreamWriter) -> None:
        key, user, priority = arguments
        who, ttl_s = frames.parse_user(user)
        if self.registry.waits(writer) >= _MAX_WAITS:
            raise FrameError(f"more than {_MAX_WAITS} requests at once")

        def deliver(offer: Offer) -> bool:
            if writer.is_closing():
                return False
            reply = [TrackerCode.SUCCESS, [offer.host, offer.port, offer.match_key]]
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
    name = _text(value)
    with contextlib.suppress(ValueError):
        if name == "localhost" or ipaddress.ip_address(name).is_loopback:
            return name
    raise FrameError(f"a server at {name}: sessions stay on loopback")


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
    """Run a tracker without a lab; print one line of JSON once it listens."""
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
