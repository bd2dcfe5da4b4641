"""Whom `edge-rt serve` listens to: its tracker and clients with a key, and no stranger."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.fuzz import rpc_frames
from tests.rpc.peers import listening, running_tracker
from tests.runtime.conftest import Edge, address_of
from tests.runtime.sessions import HOST, request
from toolchain.rpc.client import TrackerClient
from toolchain.runtime import expected_fingerprint

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

MISMATCH = 0xFF271 + 2


def test_hanging_tracker_is_abandoned(native: Edge, state: Path) -> None:
    with socket.create_server((HOST, 0)) as tracker:
        port = tracker.getsockname()[1]
        arguments = ["serve", "--tracker", f"{HOST}:{port}", "--key", "board", "--state", str(state)]
        with subprocess.Popen([*native.command, *arguments], stdin=subprocess.PIPE) as process:
            assert process.stdin
            other, _ = tracker.accept()
            with other:
                other.sendall(other.recv(4) + struct.pack("<i", 1 << 20))
                process.stdin.close()
                begin = time.monotonic()
                while process.poll() is None and time.monotonic() - begin < 60:
                    with contextlib.suppress(OSError):
                        other.sendall(b" ")
                    time.sleep(0.1)
            process.kill()
    assert process.returncode == 0


def test_listens_on_loopback_only(server: subprocess.Popen[bytes]) -> None:
    assert listening({server.pid}) == {"0100007F"}


def test_malformed_peers_do_no_harm(server: subprocess.Popen[bytes], tracker: int) -> None:
    address = address_of(server)
    with socket.create_connection(address, timeout=60) as other:
        key = b"client:board:wrong"
        other.sendall(rpc_frames.greeting(key))
        assert struct.unpack("<i", other.recv(4)) == (MISMATCH,)
    lengths = [struct.pack("<ii", rpc_frames.MAGIC, length) for length in (-1, 0, 2**31 - 1)]
    for noise in (b"GET / HTTP/1.0\r\n\r\n", *lengths):
        with socket.create_connection(address, timeout=60) as other:
            other.sendall(noise)
            with contextlib.suppress(ConnectionResetError):
                assert other.recv(4) == b""
    assert request(tracker).get_function("edge.fingerprint")() == expected_fingerprint()


def test_announced_lengths_allocate_nothing_and_are_limited(
    server: subprocess.Popen[bytes], tracker: int
) -> None:
    address = address_of(server)
    for length in (2**30, 2**30 + 1):
        with TrackerClient(HOST, tracker) as client:
            grant = client.request("board", wait_s=10)
        assert grant
        with (
            socket.create_connection(address, timeout=60) as peer,  # not through the gate
            peer.makefile("rb") as answers,
        ):
            key = f"client:{grant.match_key}".encode()
            peer.sendall(rpc_frames.greeting(key))
            expected = rpc_frames.greeting(b"server:board")
            assert answers.read(len(expected)) == expected
            peer.sendall(struct.pack("<Q", length) + b"x" * 1000)
            if length == 2**30:
                time.sleep(0.3)  # for the memory to be written to, if it were
                (session,) = psutil.Process(server.pid).children()
                assert session.memory_info().rss < 64e6
            else:
                with contextlib.suppress(ConnectionResetError):
                    answers.read()  # a farewell, then the end
    assert request(tracker).get_function("edge.fingerprint")() == expected_fingerprint()


def test_a_tracker_at_an_ipv6_address(native: Edge, state: Path) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        listener.settimeout(60)
        address = f"[::1]:{listener.getsockname()[1]}"
        arguments = ["serve", "--tracker", address, "--key", "board", "--state", str(state)]
        with subprocess.Popen([*native.command, *arguments], stdin=subprocess.PIPE) as process:
            try:
                connection, _ = listener.accept()
                with connection:
                    assert connection.recv(4) == struct.pack("<i", 0x2F271)
            finally:
                process.kill()


def test_registers_again_with_a_restarted_tracker(native: Edge, state: Path) -> None:
    with running_tracker() as port:
        first = native.serving(state, port)
        first.__enter__()
    with running_tracker("--port", str(port)):
        assert request(port).get_function("edge.fingerprint")() == expected_fingerprint()
        first.__exit__(None, None, None)


@pytest.mark.parametrize(
    "options",
    [
        ["--key", "board"],
        ["--tracker", "nowhere", "--key", "board"],
        ["--tracker", f"{HOST}:9190"],
        ["--tracker", f"{HOST}:9190", "--key", "two words"],
        ["--tracker", f"{HOST}:9190", "--key", "board", "--port", "70000"],
        ["--tracker", f"{HOST}:9190", "--key", "board", "--host", "not an address"],
    ],
)
def test_refused_options(native: Edge, tmp_path: Path, options: list[str]) -> None:
    code, answer = native("serve", *options, "--state", tmp_path)
    assert (code, answer["error"]["kind"]) == (2, "usage")


def test_port_in_use_is_reported(native: Edge, tmp_path: Path) -> None:
    with socket.socket() as occupied:
        occupied.bind((HOST, 0))
        occupied.listen()
        port = str(occupied.getsockname()[1])
        options = ("--tracker", f"{HOST}:1", "--key", "board", "--port", port, "--state", tmp_path)
        code, answer = native("serve", *options)
    assert (code, answer["error"]["kind"]) == (1, "listen")
    assert port in answer["error"]["message"]
