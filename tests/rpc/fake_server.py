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

from toolchain.rpc import frames, packets
from toolchain.rpc.frames import HOST
from toolchain.rpc.packets import HEADER, Code

SECRET = "0" * 32
INT, TENSOR, RAW_STR, FUNCTION = 1, 7, 8, 68


def packet(code: int, body: bytes = b"", size: int | None = None) -> bytes:
    return HEADER.pack(4 + len(body) if size is None else size, code) + body


def value(kind: int, content: bytes = b"") -> bytes:
    return struct.pack("<i", kind) + content


def integer(number: int) -> bytes:
    return value(INT, struct.pack("<q", number))


def text(words: bytes) -> bytes:
    return value(RAW_STR, struct.pack("<Q", len(words)) + words)


def sequence(*values: bytes) -> bytes:
    return struct.pack("<i", len(values)) + b"".join(values)


def tensor(rank: int) -> bytes:
    return value(TENSOR, struct.pack("<Qiii4s", 1, 1, 0, rank, b"\2\x20\1\0") + bytes(8 * max(rank, 0) + 8))


VOID = packet(Code.RETURN, sequence(value(0)))
TAKE_OVER = packet(
    Code.INIT_SERVER, struct.pack("<Q", 5) + b"0.8.0" + sequence(text(b"rpc.LocalSession"))
) + packet(Code.GET_GLOBAL_FUNC, sequence(text(b"rpc.CreatePipeClient")))

# What the server says where it should answer a question (GET_GLOBAL_FUNC), and what is told of it.
LIES: dict[str, tuple[bytes, str]] = {
    "take-over": (TAKE_OVER, "sent kInitServer, which only a client may say"),
    "callback": (
        packet(Code.CALL_FUNC, struct.pack("<Q", 1) + sequence(text(b"touch"))),
        "sent kCallFunc, which only a client may say",
    ),
    "write": (packet(Code.COPY_TO_REMOTE, bytes(64)), "sent kCopyToRemote, which only a client may say"),
    "unknown code": (packet(77), "sent the unknown code 77"),
    "no code": (packet(0), "sent kNone"),
    "oversized": (packet(Code.RETURN, size=1 << 40), f"announced kReturn of {1 << 40} bytes"),
    "beyond 63 bits": (packet(Code.RETURN, size=(1 << 64) - 1), "announced kReturn of"),
    "empty": (HEADER.pack(0, Code.RETURN), "announced kReturn of 0 bytes"),
    "a copy": (packet(Code.COPY_ACK, bytes(8)), "sent kCopyAck in answer to kGetGlobalFunc"),
    "shutdown": (packet(Code.SHUTDOWN), "sent kShutdown in answer to kGetGlobalFunc"),
    "an address": (
        packet(Code.RETURN, sequence(value(FUNCTION, b"\x41" * 8))),
        f"sent a value of type {FUNCTION}",
    ),
    "an object": (packet(Code.RETURN, sequence(value(73, bytes(8)))), "sent a value of type 73"),
    "no values": (packet(Code.RETURN, sequence()), "sent 0 values"),
    "many values": (packet(Code.RETURN, struct.pack("<i", 1 << 30)), f"sent {1 << 30} values"),
    "fewer than none": (packet(Code.RETURN, struct.pack("<i", -1)), "sent -1 values"),
    "two values": (packet(Code.RETURN, sequence(integer(1), integer(2))), "returned 2 values"),
    "a tensor": (packet(Code.RETURN, sequence(tensor(1))), "returned 1 values where one"),
    "a tensor of many": (
        packet(Code.RETURN, sequence(value(TENSOR, struct.pack("<Qiii", 1, 1, 0, 1 << 30) + bytes(12)))),
        f"sent a tensor of {1 << 30} dimensions",
    ),
    "a tensor of another session": (
        packet(
            Code.RETURN,
            sequence(value(TENSOR, struct.pack("<Qiii", 1, 1 + 128, 0, 0) + b"\2\x20\1\0" + bytes(8))),
        ),
        "sent a tensor of device 129",
    ),
    "a long text": (
        packet(Code.RETURN, sequence(value(RAW_STR, struct.pack("<Q", 1 << 62) + b"x"))),
        "sent kReturn whose parts are longer than itself",
    ),
    "trailing": (packet(Code.RETURN, sequence(integer(1)) + b"more"), "sent 4 bytes behind its values"),
    "an exception of numbers": (
        packet(Code.EXCEPTION, sequence(integer(1))),
        "sent an exception that is no text",
    ),
    "cut": (packet(Code.RETURN, b""), "sent kReturn whose parts are longer than itself"),
}
# These end the session or say nothing: there is nothing to tell but that.
HALVES: dict[str, bytes] = {"half a frame": packet(Code.RETURN, b"half", size=100), "silence": b""}


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
    connection.sendall(struct.pack("<ii", packets.MAGIC, 6) + b"server")


def lie(connection: socket.socket, words: bytes, patience_s: float = 20.0) -> None:
    """Begin a session in order; the answer to the first question after that is the lie."""
    connection.settimeout(patience_s)
    with suppress(EOFError, OSError), connection:
        greet(connection)
        assert question(connection)[0] == Code.INIT_SERVER
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
        connection.sendall(packet(Code.INIT_SERVER, struct.pack("<Q", 5) + b"0.8.0" + sequence()))
        question(connection)  # the client has become a server
        connection.sendall(packet(Code.GET_GLOBAL_FUNC, sequence(text(b"rpc.CreatePipeClient"))))
        handle = question(connection)[1][8:16]
        command = sequence(text(b"touch"), text(marker.encode()))
        connection.sendall(packet(Code.CALL_FUNC, handle + command))
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
    say(frames.Code.UPDATE_INFO, {"key": key, "addr": [None, 1], "secret": SECRET})
    print(json.dumps({"host": HOST, "port": 1, "pid": os.getpid()}), flush=True)
    while True:
        say(frames.Code.PUT, options.key, [1, f"lie:{time.monotonic_ns()}"], None)
        connection, _ = listener.accept()
        lie(connection, words)


if __name__ == "__main__":
    main()
