"""What comes through a gate when the server behind it lies: an error that says what it did."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.fuzz import rpc_frames as rpc
from tests.rpc import fake_server as fake
from tests.waiting import until
from toolchain.quantities import counted
from toolchain.rpc import packets
from toolchain.rpc.frames import HOST
from toolchain.rpc.gate import Gate
from toolchain.rpc.packets import HEADER, PacketCode

ASKED = fake.packet(PacketCode.GET_GLOBAL_FUNC, rpc.values(rpc.text(b"edge.info")))
BEGIN = rpc.framed(rpc.init())


@contextmanager
def gate(session: Callable[[socket.socket], None]) -> Iterator[tuple[Gate, list[str]]]:
    told: list[str] = []
    with fake.serving(session) as connect:
        opened = Gate("board b: its server", connect, told.append)
        try:
            yield opened, told
        finally:
            opened.close()
            opened.join()


@contextmanager
def client(opened: Gate) -> Iterator[socket.socket]:
    """Greet as TVM's client does, and begin a session."""
    with socket.create_connection((HOST, opened.port), timeout=60) as connection:
        connection.sendall(rpc.greeting(b"client:x"))
        assert fake.receive(connection, 14)[8:] == b"server"
        connection.sendall(BEGIN)
        assert fake.receive(connection, len(fake.VOID)) == fake.VOID
        yield connection


def rest(connection: socket.socket) -> bytes:
    data = b""
    while part := connection.recv(1 << 16):
        data += part
    return data


@pytest.mark.parametrize("name", fake.LIES)
def test_a_lie_is_told_and_nothing_of_it_arrives(name: str) -> None:
    words, message = fake.LIES[name]
    with gate(partial(fake.lie, words=words)) as (opened, told), client(opened) as connection:
        connection.sendall(ASKED)
        received = rest(connection)
    size, code = HEADER.unpack_from(received)
    assert code == PacketCode.EXCEPTION
    assert size == len(received) - 8, "an error, whole, and nothing else"
    assert f"board b: its server {message}" in received[24:].decode()
    assert len(told) == 1
    assert message in told[0]


@pytest.mark.parametrize("code", packets.REFUSALS)
def test_a_refusal_arrives_though_the_server_has_gone(code: int) -> None:
    def session(connection: socket.socket) -> None:
        fake.receive(connection, 16)
        connection.sendall(struct.pack("<i", code))

    with gate(session) as (opened, told):
        for _ in range(20):
            with socket.create_connection((HOST, opened.port), timeout=60) as connection:
                connection.sendall(rpc.greeting(b"client:x"))
                assert rest(connection) == struct.pack("<i", code)
    assert told == []


def test_what_a_library_of_the_client_did_to_the_session_is_no_lie_of_the_board() -> None:
    words, message = fake.LIES["take-over"]

    def session(connection: socket.socket) -> None:
        fake.greet(connection)
        fake.question(connection)
        connection.sendall(fake.VOID)
        fake.question(connection)
        connection.sendall(fake.VOID)
        fake.question(connection)
        connection.sendall(words)
        connection.recv(1)

    with gate(session) as (opened, told), client(opened) as connection:
        connection.sendall(fake.packet(PacketCode.GET_GLOBAL_FUNC, rpc.values(rpc.text(packets.LOADS))))
        assert fake.receive(connection, len(fake.VOID)) == fake.VOID
        connection.sendall(ASKED)
        received = rest(connection)
    size, code = HEADER.unpack_from(received)
    assert code == PacketCode.EXCEPTION
    assert size == len(received) - 8, "an error, whole, and nothing else"
    assert f"{message}, once it had loaded a library for its client: " in received[24:].decode()
    assert told == []


CLIENT = """
import sys
from tvm import rpc
session = rpc.connect("127.0.0.1", int(sys.argv[1]), "x", session_timeout=10)
session.get_function("edge.info")
"""


@pytest.mark.slow
def test_a_board_does_not_take_over_the_host(tmp_path: Path) -> None:
    """Without the gate it does: that shows that the attempt is a real one."""
    marker = tmp_path / "taken over"
    with fake.serving(partial(fake.take_over, marker=str(marker))) as connect:
        told: list[str] = []
        opened = Gate("board b: its server", connect, told.append)
        with connect() as direct:
            port = direct.getpeername()[1]
        ended = subprocess.run(
            [sys.executable, "-c", CLIENT, str(opened.port)], capture_output=True, text=True, timeout=60
        )
        assert ended.returncode == 1
        assert "board b: its server sent kInitServer, which only a client may say" in ended.stderr
        assert len(told) == 1
        assert not marker.exists()
        # In a folder of its own: TVM hands `touch` the numbers of two pipes as well.
        with subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(port)], cwd=tmp_path, stderr=subprocess.DEVNULL
        ) as client:
            until(marker.exists)
            client.kill()
        opened.close()
        opened.join()


def test_a_half_answer_is_no_answer() -> None:
    def half(connection: socket.socket) -> None:
        fake.greet(connection)
        fake.question(connection)
        connection.sendall(fake.VOID)
        fake.question(connection)
        connection.sendall(fake.HALVES["half a frame"])
        connection.close()

    with gate(half) as (opened, told), client(opened) as connection:
        connection.sendall(ASKED)
        assert rest(connection) == b""
    assert told == []  # servers are killed in the middle of an answer


@pytest.mark.slow
@pytest.mark.parametrize("name", fake.HALVES)
def test_who_waits_for_a_silent_server_may_go(name: str) -> None:
    with gate(partial(fake.lie, words=fake.HALVES[name])) as (opened, _):
        with client(opened) as connection:
            connection.sendall(ASKED)
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(1)
        until(lambda: not any(relay.alive() for relay in opened._relays))


@pytest.mark.parametrize(
    ("greeting", "told"),
    [
        (b"HTTP", "is no server of TVM's"),
        (struct.pack("<ii", packets.MAGIC, -1), "announced a name of -1 bytes"),
        (struct.pack("<ii", packets.MAGIC, 1 << 30), f"announced a name of {1 << 30} bytes"),
    ],
    ids=["no magic", "negative", "long"],
)
def test_a_greeting_is_checked(greeting: bytes, told: str) -> None:
    def session(connection: socket.socket) -> None:
        connection.sendall(greeting)

    with (
        gate(session) as (opened, said),
        socket.create_connection((HOST, opened.port), timeout=60) as connection,
    ):
        connection.sendall(rpc.greeting(b"client:x"))
        rest(connection)
    assert told in said[0]


@pytest.mark.parametrize(
    "unasked", [fake.VOID, fake.packet(PacketCode.COPY_ACK, b"1234")], ids=["return", "copy"]
)
def test_nothing_comes_unasked(unasked: bytes) -> None:
    def session(connection: socket.socket) -> None:
        fake.greet(connection)
        fake.question(connection)
        connection.sendall(fake.VOID)
        connection.sendall(unasked)
        time.sleep(5)

    with gate(session) as (opened, told), client(opened) as connection:
        assert b"without being asked" in rest(connection)
    assert "without being asked" in told[0]


def test_an_exception_may_come_unasked_as_the_last_word() -> None:
    error = packets.exception("RPCSessionTimeoutError: time is up")

    def session(connection: socket.socket) -> None:
        fake.greet(connection)
        fake.question(connection)
        connection.sendall(fake.VOID + error)
        connection.sendall(fake.TAKE_OVER)

    with gate(session) as (opened, told), client(opened) as connection:
        assert rest(connection) == error
    assert told == []


@pytest.mark.parametrize("size", [0, 5, 70_000, 5_000_000])
def test_a_copy_is_as_large_as_it_was_asked_for(size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    content = content[:size]
    asked = fake.packet(PacketCode.COPY_FROM_REMOTE, rpc.tensor(1, 0) + struct.pack("<Q", size))

    def session(extra: int, connection: socket.socket) -> None:
        fake.greet(connection)
        fake.question(connection)
        connection.sendall(fake.VOID)
        fake.question(connection)
        with suppress(OSError):
            connection.sendall(fake.packet(PacketCode.COPY_ACK, content + bytes(extra)))
            connection.recv(1)

    with gate(partial(session, 0)) as (opened, told), client(opened) as connection:
        connection.sendall(asked)
        assert fake.receive(connection, HEADER.size + size)[HEADER.size :] == content
    assert told == []
    with gate(partial(session, 1)) as (opened, told), client(opened) as connection:
        connection.sendall(asked)
        assert f"{counted(size + 1, 'byte')} where {size} were asked for".encode() in rest(connection)


def test_a_large_question_arrives_whole() -> None:
    content = bytes(range(251)) * 40_000  # 10 MB: it goes through a pipe, not through us
    heard: list[bytes] = []

    def session(connection: socket.socket) -> None:
        fake.greet(connection)
        fake.question(connection)
        connection.sendall(fake.VOID)
        heard.append(fake.question(connection)[1])
        connection.sendall(fake.VOID)
        connection.recv(1)

    with gate(session) as (opened, _), client(opened) as connection:
        connection.sendall(fake.packet(PacketCode.COPY_TO_REMOTE, content))
        assert fake.receive(connection, len(fake.VOID)) == fake.VOID
    assert heard == [content]
