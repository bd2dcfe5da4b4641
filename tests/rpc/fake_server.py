"""A server that speaks TVM's session protocol up to a point, and then lies.

Run as a program it takes the place of `edge-rt serve` (see `main`).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.rpc_frames import Code, Type
from toolchain.rpc import frames, packets
from toolchain.rpc.frames import HOST
from toolchain.rpc.packets import HEADER

SECRET = "0" * 32


def packet(code: int, body: bytes = b"") -> bytes:
    """Return a frame with its length before it."""
    return rpc.framed(rpc.frame(code, body))


def announced(size: int, code: int, body: bytes = b"") -> bytes:
    """Return a frame of which another length is told than it has."""
    return struct.pack("<Q", size) + rpc.frame(code, body)


TENSOR = struct.pack("<i", Type.TENSOR)
VOID = packet(Code.RETURN, rpc.values(rpc.NOTHING))
TAKE_OVER = rpc.framed(rpc.init(rpc.text(b"rpc.LocalSession"))) + packet(
    Code.GET_FUNCTION, rpc.values(rpc.text(b"rpc.CreatePipeClient"))
)

# What the server says where it should answer a question (GET_GLOBAL_FUNC), and what is told of it.
LIES: dict[str, tuple[bytes, str]] = {
    "take-over": (TAKE_OVER, "sent kInitServer, which only a client may say"),
    "callback": (
        packet(Code.CALL, struct.pack("<Q", 1) + rpc.values(rpc.text(b"touch"))),
        "sent kCallFunc, which only a client may say",
    ),
    "write": (packet(Code.COPY_TO, bytes(64)), "sent kCopyToRemote, which only a client may say"),
    "unknown code": (packet(77), "sent the unknown code 77"),
    "no code": (packet(0), "sent kNone"),
    "oversized": (announced(1 << 40, Code.RETURN), f"announced kReturn of {1 << 40} bytes"),
    "beyond 63 bits": (announced((1 << 64) - 1, Code.RETURN), "announced kReturn of"),
    "empty": (announced(0, Code.RETURN), "announced kReturn of 0 bytes"),
    "a copy": (packet(Code.COPY_ACK, bytes(8)), "sent kCopyAck in answer to kGetGlobalFunc"),
    "shutdown": (packet(Code.SHUTDOWN), "sent kShutdown in answer to kGetGlobalFunc"),
    "an address": (
        packet(Code.RETURN, rpc.values(rpc.number(int.from_bytes(b"\x41" * 8), Type.FUNCTION))),
        f"sent a value of type {Type.FUNCTION}",
    ),
    "an object": (packet(Code.RETURN, rpc.values(rpc.number(0, Type.MODULE))), "sent a value of type 73"),
    "no values": (packet(Code.RETURN, rpc.values()), "sent 0 values"),
    "many values": (packet(Code.RETURN, struct.pack("<i", 1 << 30)), f"sent {1 << 30} values"),
    "fewer than none": (packet(Code.RETURN, struct.pack("<i", -1)), "sent -1 values"),
    "two values": (packet(Code.RETURN, rpc.values(rpc.number(1), rpc.number(2))), "returned 2 values"),
    "a tensor": (packet(Code.RETURN, rpc.values(TENSOR + rpc.tensor(1, 0))), "returned 1 value where one"),
    "a tensor of many": (
        packet(Code.RETURN, rpc.values(TENSOR + struct.pack("<Qiii", 1, 1, 0, 1 << 30) + bytes(12))),
        f"sent a tensor of {1 << 30} dimensions",
    ),
    "a tensor of another session": (
        packet(
            Code.RETURN,
            rpc.values(TENSOR + rpc.tensor(1, device=struct.pack("<ii", 1 + 128, 0))),
        ),
        "sent a tensor of device 129",
    ),
    "a long text": (
        packet(Code.RETURN, rpc.values(struct.pack("<iQ", Type.TEXT, 1 << 62) + b"x")),
        "sent kReturn whose parts are longer than itself",
    ),
    "trailing": (packet(Code.RETURN, rpc.values(rpc.number(1)) + b"more"), "sent 4 bytes behind its values"),
    "an exception of numbers": (
        packet(Code.EXCEPTION, rpc.values(rpc.number(1))),
        "sent an exception that is no text",
    ),
    "cut": (packet(Code.RETURN, b""), "sent kReturn whose parts are longer than itself"),
}
# These end the session or say nothing: there is nothing to tell but that.
HALVES: dict[str, bytes] = {"half a frame": announced(100, Code.RETURN, b"half"), "silence": b""}


def receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def question(connection: socket.socket) -> tuple[int, bytes]:
    """Read what a client asks."""
    size, code = HEADER.unpack(receive(connection, HEADER.size))
    return code, receive(connection, size - packets.CODE_BYTES)


def greet(connection: socket.socket) -> None:
    """Answer a client's greeting as any server does."""
    _, length = struct.unpack("<ii", receive(connection, 8))
    receive(connection, length)
    connection.sendall(rpc.greeting(b"server"))


def lie(connection: socket.socket, words: bytes, patience_s: float = 20.0) -> None:
    """Begin a session in order; the answer to the first question after that is the lie."""
    connection.settimeout(patience_s)
    with suppress(EOFError, OSError), connection:
        greet(connection)
        assert question(connection)[0] == Code.INIT
        connection.sendall(VOID)
        question(connection)
        connection.sendall(words)
        while connection.recv(1 << 16):
            pass


def take_over(connection: socket.socket, marker: str) -> None:
    """Have the client run `touch MARKER` on its host, as whoever it runs as."""
    connection.settimeout(20.0)
    with suppress(EOFError, OSError, struct.error), connection:
        greet(connection)
        question(connection)
        connection.sendall(VOID)
        question(connection)
        connection.sendall(rpc.framed(rpc.init()))
        question(connection)  # the client has become a server
        connection.sendall(packet(Code.GET_FUNCTION, rpc.values(rpc.text(b"rpc.CreatePipeClient"))))
        handle = question(connection)[1][8:16]
        command = rpc.values(rpc.text(b"touch"), rpc.text(marker.encode()))
        connection.sendall(packet(Code.CALL, handle + command))
        while connection.recv(1 << 16):
            pass


@contextmanager
def serving(session: Callable[[socket.socket], None]) -> Iterator[Callable[[], socket.socket]]:
    """Have `session` serve every connection; yield what connects."""
    with socket.create_server((HOST, 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=session, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        address = listener.getsockname()
        yield lambda: socket.create_connection(address, timeout=60)
        listener.shutdown(socket.SHUT_RDWR)


def main() -> None:
    """Serve as edge-rt does, but lie; which lie stands in a file `lie` beside this program's link."""
    parser = argparse.ArgumentParser()
    for option in ("--tracker", "--port", "--key", "--lie"):
        parser.add_argument(option)
    options, _ = parser.parse_known_args()
    name = Path(options.lie).read_text().strip()
    words = HALVES[name] if name in HALVES else LIES[name][0]
    print(json.dumps({"secret": SECRET}), flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    listener = socket.create_server((HOST, int(options.port)))
    tracker = socket.create_connection((HOST, int(options.tracker.rpartition(":")[2])), timeout=60)
    tracker.sendall(frames.MAGIC)
    receive(tracker, 4)

    def say(*message: object) -> None:
        tracker.sendall(frames.encode(message))
        receive(tracker, struct.unpack("<i", receive(tracker, 4))[0])

    key = f"server:{options.key}"
    say(frames.TrackerCode.UPDATE_INFO, {"key": key, "addr": [None, 1], "secret": SECRET})
    print(json.dumps({"host": HOST, "port": 1, "pid": os.getpid()}), flush=True)
    while True:
        say(frames.TrackerCode.PUT, options.key, [1, f"lie:{time.monotonic_ns()}"], None)
        connection, _ = listener.accept()
        lie(connection, words)


if __name__ == "__main__":
    main()
