from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rpc.peers import Peer, listening, raw, running_tracker
from tests.waiting import until
from toolchain.errors import ToolchainError
from toolchain.rpc import frames
from toolchain.rpc.frames import HOST, MAGIC, TrackerCode


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running_tracker() as port:
        yield port


def test_an_offer_is_taken_once(port: int) -> None:
    with Peer(HOST, port) as server, Peer(HOST, port) as client:
        server.register("once", 9001)
        assert client.summary()["once"] == {"total": 1, "free": 1, "pending": 0}
        (match_key,) = server.say(TrackerCode.GET_PENDING_MATCHKEYS)
        grant = client.request("once", wait_s=5)
        assert (grant.host, grant.match_key) == (HOST, match_key)
        assert grant.port == client.boards("once")[""]
        assert grant.port != 9001, "clients are given a gate's port, never the server's own"
        assert server.say(TrackerCode.GET_PENDING_MATCHKEYS) == []
        assert client.summary()["once"] == {"total": 1, "free": 0, "pending": 0}


def test_a_server_that_offers_again_has_one_offer(port: int) -> None:
    with Peer(HOST, port) as server:
        server.register("again")
        server.offer("again", match_key="second")
        assert server.say(TrackerCode.GET_PENDING_MATCHKEYS) == ["second"]
        assert server.summary()["again"]["free"] == 1


def test_a_server_that_ends_is_forgotten_at_once(port: int) -> None:
    with Peer(HOST, port) as client:
        with Peer(HOST, port) as server:
            server.register("short")
            assert client.summary()["short"]["total"] == 1
        until(lambda: "short" not in client.summary())


def test_a_waiting_client_is_served_when_a_server_comes(port: int) -> None:
    with Peer(HOST, port) as watcher, Peer(HOST, port) as client, Peer(HOST, port) as server:
        grants = []
        thread = threading.Thread(target=lambda: grants.append(client.request("later", wait_s=10)))
        thread.start()
        until(lambda: watcher.summary().get("later", {}).get("pending") == 1)
        server.register("later", 9002)
        thread.join(timeout=60)
        assert grants[0].port == watcher.boards("later")[""]


def test_a_client_that_gives_up_does_not_take_a_server(port: int) -> None:
    with Peer(HOST, port) as watcher, Peer(HOST, port) as client, Peer(HOST, port) as server:
        begun = time.monotonic()
        assert client.request("busy", wait_s=0.2) is None
        assert time.monotonic() - begun < 30
        until(lambda: "busy" not in watcher.summary())
        server.register("busy")
        assert watcher.summary()["busy"]["free"] == 1


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        MAGIC + struct.pack("<i", -1),
        MAGIC + struct.pack("<i", 0),
        MAGIC + struct.pack("<i", 2**31 - 1) + b"x",
        MAGIC + struct.pack("<i", frames.MAX_REQUEST_BYTES + 1),
        MAGIC + struct.pack("<i", 4) + b"\xff\xfe\x00\x01",
        MAGIC + struct.pack("<i", 30000) + b"[" * 30000,
        MAGIC + frames.encode([]),
        MAGIC + frames.encode({"code": 3}),
        MAGIC + frames.encode([99]),
        MAGIC + frames.encode([True]),
        MAGIC + frames.encode([TrackerCode.PUT]),
        MAGIC + frames.encode([TrackerCode.PUT, "key", [0, "match"], None]),
        MAGIC + frames.encode([TrackerCode.PUT, "key", ["9000", "match"], None]),
        MAGIC + frames.encode([TrackerCode.PUT, "key", [9000, "match"], "192.0.2.1"]),
        MAGIC + frames.encode([TrackerCode.UPDATE_INFO, {"key": "client:x", "addr": [None, 1]}]),
        MAGIC + frames.encode([TrackerCode.UPDATE_INFO, "server"]),
        *(
            MAGIC + frames.encode([TrackerCode.UPDATE_INFO, {"key": "server:x", "addr": [host, 9000]}])
            for host in ("192.0.2.1", "127.example.org", "localhost.example.org", "::2")
        ),
        MAGIC + frames.encode([TrackerCode.REQUEST, "key", "", float("inf")]),
        MAGIC + frames.encode([TrackerCode.REQUEST, None, "", 1]),
        MAGIC + frames.encode([TrackerCode.REQUEST, "flood", "", 1]) * 20,
    ],
    ids=lambda words: repr(words[:40]),
)
def test_garbage_is_dropped_and_others_are_served(port: int, words: bytes) -> None:
    with raw(port) as garbage, Peer(HOST, port) as client:
        garbage.sendall(words)
        received = b"begin"
        while received:
            try:
                received = garbage.recv(4096)
            except ConnectionResetError:
                break
        assert client.say(TrackerCode.PING) == 0
        until(lambda: "flood" not in client.summary())


@pytest.mark.slow
def test_who_is_slow_in_the_handshake_is_dropped(port: int) -> None:
    with raw(port) as silent, raw(port) as slow, Peer(HOST, port) as client:
        slow.sendall(MAGIC + struct.pack("<i", 100) + b"[")
        begun = time.monotonic()
        silent.settimeout(60)
        with contextlib.suppress(ConnectionResetError):
            assert silent.recv(1) == b""
        assert time.monotonic() - begun < 40
        assert client.say(TrackerCode.PING) == 0


def test_stop_is_refused(port: int) -> None:
    with Peer(HOST, port) as client:
        assert client.say(TrackerCode.STOP, "key") == -1
        assert client.say(TrackerCode.PING) == 0


def test_many_silent_connections_leave_room_for_none_but_do_no_harm(port: int) -> None:
    silent = [raw(port) for _ in range(520)]
    for connection in silent:
        connection.close()

    def answers() -> bool:
        try:
            with Peer(HOST, port) as client:
                return client.say(TrackerCode.PING) == 0
        except ToolchainError:
            return False

    until(answers)


@pytest.mark.slow
def test_a_port_in_use_names_the_holder() -> None:
    with socket.create_server((HOST, 0)) as holder:
        port = holder.getsockname()[1]
        program = [sys.executable, "-m", "toolchain.rpc.tracker", "--port", str(port)]
        ended = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert f"port {port} is in use by" in ended.stderr
    assert f"(pid {os.getpid()})" in ended.stderr
    assert "choose another port" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_it_loads_no_tvm_and_listens_on_loopback_only() -> None:
    with running_tracker() as port, Peer(HOST, port) as client:
        assert client.say(TrackerCode.PING) == 0
        pid = _owner(port)
        assert "tvm" not in Path(f"/proc/{pid}/maps").read_text()  # it starts within 0.1 s
        assert listening({pid}) == {"0100007F"}


def _owner(port: int) -> int:
    import psutil

    found = [c.pid for c in psutil.net_connections("tcp") if c.laddr.port == port and c.status == "LISTEN"]
    assert len(found) == 1
    return found[0]


def test_no_tracker_there() -> None:
    with socket.create_server((HOST, 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(ToolchainError, match=f"no tracker answers at {HOST}:{port}"):
        Peer(HOST, port)


@pytest.mark.slow
def test_tvms_own_client_and_server(port: int) -> None:
    from tvm import rpc

    server = rpc.Server(HOST, tracker_addr=(HOST, port), key="tvm", silent=True)
    try:
        tracker = rpc.connect_tracker(HOST, port)
        until(lambda: "tvm   1      1     0" in tracker.text_summary())
        session = tracker.request("tvm", session_timeout=20)
        assert session.get_function("testing.echo")("hello") == "hello"
        assert "tvm   1      0     0" in tracker.text_summary()
        del session
        until(lambda: "tvm   1      1     0" in tracker.text_summary())
    finally:
        server.terminate()
    until(lambda: "tvm " not in tracker.text_summary())
