"""Other users of the machine that edge-rt runs on: what they may reach, and what they get."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.frugal_tracker import FrugalTracker
from tests.runtime.conftest import Edge
from tests.waiting import until

# As in CI. Elsewhere a user who is not root has no second user to be.
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("CI"), reason="only root can be somebody else"
)
pytestmark = [pytest.mark.slow, needs_root]  # edge-rt may have to be compiled

STRANGER, OWNER = 65534, 65533
HOST = "127.0.0.1"
GREETING = rpc.greeting(b"client:wrong")
MISMATCH = struct.pack("<i", rpc.MAGIC + 2)


@dataclass(frozen=True)
class Served:
    """A server: where it listens, and the file of what it says."""

    process: subprocess.Popen[bytes]
    address: tuple[str, int]
    words: Path


def become(uid: int) -> None:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def as_user(uid: int, work: Callable[[], bytes]) -> bytes:
    """Do `work` in a process of another user; return what it says."""
    codecs.lookup("idna")  # for names of hosts: Python's files may be closed to that user
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = b"!"
        try:
            become(uid)
            answer = work()
        finally:
            os.write(writing, answer)
            os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            return pipe.read()
    finally:
        os.waitpid(child, 0)


def greet(address: tuple[str, int]) -> bytes:
    """Greet a server with a wrong key; return its answer, if it gives one."""
    try:
        with socket.create_connection(address, timeout=60) as connection:
            connection.sendall(GREETING)
            return connection.recv(4)
    except ConnectionError:
        return b""


@contextlib.contextmanager
def serving(
    command: tuple[str, ...], folder: Path, *options: str, uid: int | None = None
) -> Iterator[Served]:
    """Run a server until it is left."""
    with FrugalTracker() as tracker, (folder / "words").open("wb") as words:
        arguments = [
            "serve",
            "--tracker",
            tracker.address,
            "--key",
            "board",
            "--state",
            str(folder / "state"),
        ]
        with subprocess.Popen(
            [*command, *arguments, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            user=uid,
        ) as process:
            try:
                assert process.stdin and process.stdout
                secret = json.loads(process.stdout.readline())["secret"]
                ready = json.loads(process.stdout.readline())
                assert tracker.introduction["secret"] == secret
                yield Served(process, (ready["host"], ready["port"]), folder / "words")
                process.stdin.close()
                assert process.wait(60) == 0
            finally:
                process.kill()


def test_other_users_are_refused_and_logged_once(edge: Edge, tmp_path: Path) -> None:
    with serving(edge.command, tmp_path) as served:
        for _ in range(20):
            assert as_user(STRANGER, lambda: greet(served.address)) == b""
        assert greet(served.address) == MISMATCH
        lines = served.words.read_text().splitlines()
    refused = f"edge-rt: refused a connection from user id {STRANGER}; --any-peer would let it in"
    assert lines[0] == refused
    # A machine that is busy may take so long for all that the rest is told of, in one line.
    assert all(re.fullmatch(re.escape(refused) + r" \(\d+ more since then\)", line) for line in lines[1:])
    assert len(lines) < 5


def test_any_peer_option(native: Edge, tmp_path: Path) -> None:
    with serving(native.command, tmp_path, "--any-peer") as served:
        assert as_user(STRANGER, lambda: greet(served.address)) == MISMATCH


def test_the_owner_and_root_may_connect(native: Edge) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's are closed to others
        folder = Path(name)
        shutil.copy(native.command[0], folder / "edge-rt")
        for path in (folder, folder / "edge-rt"):
            os.chown(path, OWNER, OWNER)
        with serving((str(folder / "edge-rt"),), folder, uid=OWNER) as served:
            assert as_user(OWNER, lambda: greet(served.address)) == MISMATCH
            assert greet(served.address) == MISMATCH  # root
            assert as_user(STRANGER, lambda: greet(served.address)) == b""


@pytest.mark.parametrize(
    ("host", "addresses"), [("::1", ["::1"]), ("::", ["::1", HOST]), (HOST, [HOST, "::ffff:127.0.0.1"])]
)
def test_peers_are_found_over_ipv4_and_ipv6(
    native: Edge, tmp_path: Path, host: str, addresses: list[str]
) -> None:
    with serving(native.command, tmp_path, "--host", host) as served:
        for address in addresses:
            assert greet((address, served.address[1])) == MISMATCH, address
            assert as_user(STRANGER, partial(greet, (address, served.address[1]))) == b"", address


def test_closed_connection_does_not_count_as_root(native: Edge, tmp_path: Path) -> None:
    """The kernel lists what nobody holds any more with user id 0."""
    with serving(native.command, tmp_path) as served:

        def leave() -> bytes:
            with socket.create_connection(served.address) as connection:
                connection.sendall(GREETING)
            return b"left"

        served.process.send_signal(signal.SIGSTOP)
        try:
            assert as_user(STRANGER, leave) == b"left"
        finally:
            served.process.send_signal(signal.SIGCONT)
        until(lambda: "refused a connection from" in served.words.read_text())


def test_silent_peers_block_nobody(native: Edge, tmp_path: Path) -> None:
    with serving(native.command, tmp_path) as served, contextlib.ExitStack() as silent:
        waiting = [
            silent.enter_context(socket.create_connection(served.address, timeout=60)) for _ in range(40)
        ]
        begin = time.monotonic()
        assert greet(served.address) == MISMATCH
        assert time.monotonic() - begin < 4  # one of them may wait for 5 s
        assert waiting[0].recv(1) == b""  # the oldest went


def test_foreign_tracker_does_not_get_the_secret(native: Edge, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            become(STRANGER)
            listener = socket.create_server((HOST, 0))
            listener.settimeout(60)
            os.write(writing, struct.pack("<i", listener.getsockname()[1]))
            heard = b""
            for _ in range(2):
                connection, _ = listener.accept()
                connection.sendall(connection.recv(4))
                heard += connection.recv(100)
            os.write(writing, heard or b"nothing")
        os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            tracker = f"{HOST}:{struct.unpack('<i', pipe.read(4))[0]}"
            argv = ["serve", "--tracker", tracker, "--key", "board", "--state", str(tmp_path / "state")]
            with subprocess.Popen(
                [*native.command, *argv], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
            ) as process:
                assert pipe.read() == b"nothing"
                process.kill()
    finally:
        os.waitpid(child, 0)
