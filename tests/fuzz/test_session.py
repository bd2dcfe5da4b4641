"""Sessions with edge-rt: whatever a client sends, the session ends in order and the server goes on.

What is tried: frames made by a grammar, with handles that the session gave and with others, and frames of
which a part is wrong. It runs the sanitized edge-rt where EDGE_RT names it, as `make fuzz` does.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.frugal_tracker import FrugalTracker
from tests.fuzz.loop import Attempt, run
from tests.fuzz.rpc_frames import Code, Type
from tests.fuzz.sanitized import OPTIONS
from tests.waiting import PATIENCE_S
from toolchain.runtime import ensure_runtime

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

WELCOME = rpc.greeting(b"server:fuzz")
DEVICES = (rpc.CPU, rpc.LAZY)
BAD = ("ended by signal", "ERROR: AddressSanitizer", "runtime error:")
FUNCTIONS = (
    b"edge.info",
    b"edge.fingerprint",
    b"edge.configure",
    b"edge.vta.run",
    b"edge.vta.use",
    b"edge.vta.measure",
    b"tvm.rpc.server.upload",
    b"tvm.rpc.server.download",
    b"tvm.rpc.server.remove",
    b"tvm.rpc.server.load_module",
    b"tvm.rpc.server.workpath",
    b"runtime.RPCTimeEvaluator",
    b"runtime.NumThreads",
    b"tvm.contrib.random.random_fill_for_measure",
    b"rpc.ServerLoop",
    b"no.such",
)


class Session:
    """A client that keeps what it was given."""

    def __init__(self, server: socket.socket) -> None:
        self.server = server
        self.said = server.makefile("rb")
        self.functions: list[int] = []
        self.memory: list[tuple[int, int, bytes]] = []  # address or handle, bytes, device
        self.sent: list[bytes] = []

    @property
    def handles(self) -> list[int]:
        return [*self.functions, *(data for data, *_ in self.memory)]

    def ask(self, body: bytes) -> bytes | None:
        """Send a frame; return the answer's body, or None when the session has ended."""
        self.sent.append(body)
        try:
            self.server.sendall(rpc.framed(body))
            head = self.said.read(8)
            if len(head) < 8:
                return None
            answer = self.said.read(struct.unpack("<Q", head)[0])
        except (ConnectionError, BrokenPipeError):
            return None
        code = struct.unpack_from("<i", answer)[0]
        return None if code == Code.SHUTDOWN or (code == Code.EXCEPTION and b"refused:" in answer) else answer

    def pointer(self, answer: bytes | None) -> int:
        """Return the pointer that an answer holds; 0 if it holds none."""
        if answer is None or len(answer) != 20:
            return 0
        code, count, kind, handle = struct.unpack("<iiiQ", answer)
        return int(handle) if (code, count, kind) == (Code.RETURN, 1, Type.POINTER) else 0


def well_made(random: Random, session: Session) -> bytes:
    """Return the body of a frame that a client may send, though not one that does something."""
    data, size, device = random.choice(session.memory or [(0, 0, rpc.CPU)])
    if random.random() < 0.1:
        device = random.choice(DEVICES)
    elements = size // 4
    copied = 4 * random.randint(0, elements)
    tensor = rpc.tensor(data, elements, device=device)
    there = struct.pack("<i", Type.DEVICE) + device
    pointed = struct.pack("<i", Type.TENSOR) + tensor
    nothing = struct.pack("<i", Type.NONE)
    function = random.choice(session.functions or [0])
    called = struct.pack("<Q", function)
    some = [rpc.any_value(random, session.handles) for _ in range(random.randrange(4))]
    file = [rpc.text(random.choice((b"a", b"b.so", b"..", b"x/y"))), rpc.text(b"content", Type.BYTES)]
    name = rpc.text(random.choice(FUNCTIONS), random.choice((Type.TEXT, Type.SMALL_STR, Type.STR)))
    frames: list[tuple[int, list[bytes], list[bytes]]] = [  # code, what stands alone, values
        (Code.GET_FUNCTION, [], [name]),
        (Code.CALL, [called], some),
        (Code.CALL, [called], file[: random.randrange(3)]),
        (Code.COPY_AMONG, [], [pointed, pointed, nothing]),
        (Code.GET_ATTR, [], [there, rpc.number(random.randrange(20))]),
        (Code.SYNC, [], [there, nothing]),
        (Code.FREE, [], [there, rpc.number(data, Type.POINTER)]),
        (Code.FREE_HANDLE, [], [rpc.number(function, Type.POINTER)]),
        (Code.ALLOC_TENSOR, [], [struct.pack("<i", Type.TENSOR) + rpc.tensor(0, 3, 5), nothing]),
        (random.randrange(-2, 30), [], some),
    ]
    copies = [
        rpc.frame(Code.COPY_TO, tensor, struct.pack("<Q", copied), bytes(copied)),
        rpc.frame(Code.COPY_FROM, tensor, struct.pack("<Q", copied)),
    ]
    made = [rpc.frame(code, *alone, rpc.values(*values)) for code, alone, values in frames]
    return random.choice([*made, *copies])


def prologue(random: Random, session: Session) -> bool:
    """Begin as clients do, and get something to hold; return whether the session goes on."""
    if session.ask(rpc.init()) is None:
        return False
    for name in random.sample(FUNCTIONS, random.randrange(4)):
        answer = session.ask(rpc.frame(Code.GET_FUNCTION, rpc.values(rpc.text(name))))
        if handle := session.pointer(answer):
            session.functions.append(handle)
    for _ in range(random.randrange(3)):
        size = random.choice((4, 64, 4096))
        dtype = struct.pack("<iBBHi", Type.DTYPE, 2, 32, 1, 0)
        device = random.choice(DEVICES)
        there = struct.pack("<i", Type.DEVICE) + device
        asked = rpc.values(there, rpc.number(size), rpc.number(64), dtype)
        if data := session.pointer(session.ask(rpc.frame(Code.ALLOC, asked))):
            session.memory.append((data, size, device))
    return True


def converse(random: Random, session: Session) -> None:
    """Say things until the session ends, or enough is said."""
    assert session.said.read(len(WELCOME)) == WELCOME
    if random.random() > 0.1 and not prologue(random, session):
        raise AssertionError("an honest beginning was not answered")
    for _ in range(random.randrange(1, 20)):
        body = well_made(random, session)
        if random.random() < 0.3:
            body = rpc.mutated(random, body)
        if random.random() < 0.03:  # announced, and not sent; or sent, and not announced
            session.server.sendall(struct.pack("<Q", random.choice(rpc.LIMITS)) + body)
            return
        if session.ask(body) is None:
            return


def _story(session: Session | None, said: str) -> str:
    return "\n".join(["", *(body.hex() for body in (session.sent if session else [])), said])


@contextmanager
def harness() -> Iterator[Attempt]:
    """Run a server; yield what has one session with it."""
    program = os.environ.get("EDGE_RT") or str(ensure_runtime("x86_64").program)
    with tempfile.TemporaryDirectory() as folder, FrugalTracker() as tracker:
        words = Path(folder) / "stderr"
        argv = [program, "serve", "--tracker", tracker.address, "--key", "fuzz", "--state", f"{folder}/state"]
        with (
            words.open("wb") as stderr,
            subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, **OPTIONS},
            ) as process,
        ):
            heard = 0

            def attempt(random: Random) -> None:
                nonlocal heard
                port, match_key = tracker.offer(PATIENCE_S)
                greeting = f"client:{match_key} -timeout=60".encode()
                session: Session | None = None
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as server:
                        server.sendall(rpc.greeting(greeting))
                        session = Session(server)
                        with session.said:
                            converse(random, session)
                    tracker.await_offer(PATIENCE_S)  # the session has ended
                    assert process.poll() is None, f"the server has ended: {process.returncode}"
                except (AssertionError, OSError) as error:
                    raise AssertionError(f"{error!r}{_story(session, words.read_text()[heard:])}") from error
                said = words.read_text(errors="replace")[heard:]
                heard += len(said)
                assert not any(bad in said for bad in BAD), _story(session, said)

            try:
                yield attempt
            finally:
                process.stdin.close()
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()


def test_a_few_hundred_sessions_end_in_order() -> None:
    run("session", harness, seed=20260, cases=200)
