"""What a server says to a client: of any bytes, only whole answers to what was asked come through.

What is tried: answers made by a grammar to some questions, and after some of them others, of which a part is
wrong, of another order, or no answers at all; and greetings that are none.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import psutil
import pytest

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.loop import Attempt, run
from tests.fuzz.rpc_answers import TEXTS, Asked, any_question, good_answer, harmless
from tests.fuzz.rpc_frames import Code, Type
from tests.waiting import PATIENCE_S
from toolchain.rpc.relay import Relay

pytestmark = pytest.mark.slow

MAGIC = 0xFF271
GREETING = struct.pack("<ii", MAGIC, 8) + b"client:x"
WELCOME = struct.pack("<ii", MAGIC, 11) + b"server:fuzz"
NAME = "board b: its server"
HELD = 4 << 20  # bytes that a session may hold beside what was sent
REPORT = b"the session was ended"
REPORT_HEAD = 8 + 4 + 4 + 4 + 8  # bytes of a text's frame before the text


def bad_answer(random: Random, asked: Asked) -> bytes:
    """Return what a lying server sends in place of an answer."""
    body = good_answer(random, asked)
    match random.randrange(7):
        case 0:  # an answer to something else
            return rpc.framed(good_answer(random, any_question(random)))
        case 1:  # what a client would say
            return rpc.framed(any_question(random).body)
        case 2:  # announced, and not sent
            return struct.pack("<Q", random.choice((*rpc.LIMITS, 2**25))) + body
        case 3:
            each = [rpc.any_value(random, []) for _ in range(random.randrange(4))]
            return rpc.framed(rpc.frame(Code.RETURN, rpc.values(*each)))
        case 4:
            return rpc.framed(rpc.frame(Code.RETURN, bad_values(random, asked)))
        case 5:
            return rpc.framed(body)[: random.randrange(len(body) + 8)]
        case _:
            return rpc.framed(rpc.mutated(random, body))


def bad_values(random: Random, asked: Asked) -> bytes:
    """Return a sequence whose values fit into it, and contradict themselves."""
    kind = random.choice((Type.TENSOR, Type.TENSOR, *TEXTS))
    if kind is Type.TENSOR:
        rank, room = random.choice((-1, -1, -1, -4, -(2**31), 1, 2**28)), random.choice((0, 0, 8))
        bad = struct.pack("<iQiiiI", kind, 8, 1, 0, rank, 2) + bytes(room)
        return rpc.values(rpc.number(kind), bad, rpc.number(8, Type.POINTER))
    inner = random.choice((0, 1, 8, 64, 65, 67, 71, 73, 115, 2**31))
    words = random.randbytes(random.choice((0, 8)))
    bad = struct.pack("<iIQ", kind, inner, len(words)) + words
    return rpc.values(*[rpc.number(kind)] * (asked.code is Code.CALL), bad)


def receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        assert part, "the connection ended"
        data += part
    return data


def exchange(server: socket.socket, said: bytes, client: socket.socket) -> bytes:
    """Say so much and end; return what comes to the client until its connection ends."""
    received, pending = bytearray(), memoryview(said)
    deadline = time.monotonic() + PATIENCE_S
    server.setblocking(False)
    with selectors.DefaultSelector() as ready:
        ready.register(client, selectors.EVENT_READ)
        ready.register(server, selectors.EVENT_WRITE)
        while True:
            assert time.monotonic() < deadline, (
                f"the session did not end; the client got {len(received)} bytes"
            )
            for key, _ in ready.select(1.0):
                if key.fileobj is client:
                    data = client.recv(1 << 16)
                    received += data
                    if not data:
                        return bytes(received)
                elif pending:
                    try:
                        pending = pending[server.send(pending) :]
                    except (BrokenPipeError, ConnectionResetError):  # it was believed no longer
                        pending = pending[:0]
                else:
                    with contextlib.suppress(OSError):
                        server.shutdown(socket.SHUT_RDWR)
                    ready.unregister(server)


def check(received: bytes, said: bytes, good: int, questions: list[Asked], told: list[str]) -> None:
    """Check what came to the client of what was said, of which the first `good` bytes were honest."""
    assert len(told) <= 1, told
    own = b""
    if told:
        assert received.endswith(REPORT), "a lie, and the client isn't told"
        own = received[received.rindex(NAME.encode()) - REPORT_HEAD :]
        assert struct.unpack_from("<Qi", own) == (len(own) - 8, Code.EXCEPTION), "a report that is none"
        assert told[0].isprintable() and told[0].encode() in own, f"not for people: {told}"
    passed = received[: len(received) - len(own)]
    assert said.startswith(passed), "the client got what was not said"
    assert len(passed) >= good, f"{good - len(passed)} honest bytes were kept back"
    assert not (good == len(said) and told), f"an honest server lied: {told}"
    assert not (harmless(received, questions) and told), "an error in the midst of a copy"


def _welcomed(said: bytes, received: bytes) -> int:
    """Return how many bytes of a greeting came through."""
    if len(said) < 4 or received[:4] != said[:4]:
        return 0
    magic = struct.unpack_from("<i", said)[0]
    assert magic - MAGIC in (0, 1, 2), f"greeted with {magic:#x}"  # rpc_socket_impl.cc, RPCConnect
    if magic != MAGIC:
        return 4
    length = int(struct.unpack_from("<i", received, 4)[0])
    assert 0 <= length <= len(said) - 8, f"{length} bytes of a name"  # the client makes room for them
    return 8 + length


def greet_badly(random: Random, server: socket.socket, client: socket.socket, told: list[str]) -> int:
    """Greet as no server does, or turn the client away; return how many bytes were said."""
    said = struct.pack(
        "<ii", MAGIC + random.choice((0, 0, 1, 2, 3, -1)), random.choice((0, 4, 11, 4096, 4097, -1))
    )
    said = random.choice((said, random.randbytes(8), said[:3])) + random.randbytes(
        random.choice((0, 11, 5000))
    )
    received = exchange(server, said, client)
    welcomed = _welcomed(said, received)
    report = received[welcomed:] if told else b""
    assert not told or report.endswith(REPORT), f"of {told} the client heard {received!r}"
    assert not report or struct.unpack_from("<Q", report)[0] == len(report) - 8, f"with {report!r}"
    assert said.startswith(received[: len(received) - len(report)]), "the client got what was not said"
    return len(said)


def answer(random: Random, server: socket.socket, client: socket.socket, told: list[str]) -> int:
    """Have some questions asked, and answer honestly for a while; return how many bytes were said."""
    questions = [any_question(random) for _ in range(random.randrange(1, 6))]
    honest = random.randrange(len(questions) + 1)
    right = b"".join(rpc.framed(good_answer(random, asked)) for asked in questions[:honest])
    wrong = b"".join(bad_answer(random, asked) for asked in questions[honest:])
    if random.random() < 0.1:  # unasked
        wrong += bad_answer(random, any_question(random))
    asked = b"".join(rpc.framed(question.body) for question in questions)
    server.sendall(WELCOME)
    assert receive(client, len(WELCOME)) == WELCOME, "a greeting comes as it was said"
    sender = threading.Thread(target=client.sendall, args=(asked,))
    sender.start()
    assert receive(server, len(asked)) == asked, "questions come as they were asked"
    sender.join()
    check(exchange(server, right + wrong, client), right + wrong, len(right), questions, told)
    return len(asked + right + wrong)


@contextmanager
def harness() -> Iterator[Attempt]:
    """Yield what has one session in which the server goes astray."""
    crashes: list[str] = []
    hook, threading.excepthook = threading.excepthook, lambda crash: crashes.append(repr(crash))
    descriptors = psutil.Process().num_fds()
    tracemalloc.start()
    logging.disable(logging.WARNING)  # each lie is told

    def attempt(random: Random) -> None:
        told: list[str] = []
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        client, outside = socket.socketpair()
        inside, server = socket.socketpair()
        with client, server:
            for end in (client, server):
                end.settimeout(PATIENCE_S)
            relay = Relay(outside, inside, NAME, told.append)
            relay.start()
            client.sendall(GREETING)
            assert receive(server, len(GREETING)) == GREETING, "a greeting comes as it was said"
            said = (greet_badly if random.random() < 0.1 else answer)(random, server, client, told)
        relay.join(PATIENCE_S)
        assert not relay.alive() and outside.fileno() == inside.fileno() == -1, "the session goes on"
        assert not crashes, crashes
        held = tracemalloc.get_traced_memory()[1] - before - 8 * said
        assert held < HELD, f"{held} bytes were held"

    try:
        yield attempt
        left = [thread.name for thread in threading.enumerate() if NAME in thread.name]
        assert not left, f"threads go on: {left}"
        assert psutil.Process().num_fds() <= descriptors, "connections or pipes are left"
    finally:
        logging.disable(logging.NOTSET)
        tracemalloc.stop()
        threading.excepthook = hook


def test_a_few_hundred_servers_are_heard_as_far_as_they_answer() -> None:
    run("answers", harness, seed=20260, cases=250)
