from __future__ import annotations

import dataclasses
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.rpc.breaking import breaking_off
from tests.rpc.peers import Peer
from tests.waiting import until
from toolchain.boards.inventory.lookup import local_board
from toolchain.errors import ToolchainError, UsageError
from toolchain.rpc import lab, session
from toolchain.rpc.client import Grant, TrackerClient
from toolchain.rpc.frames import HOST
from toolchain.rpc.session import open_session
from toolchain.runtime import expected_fingerprint

# Each takes about a second, and the first compiles edge-rt if it must.
pytestmark = pytest.mark.slow


@pytest.fixture
def running(state: Path) -> Iterator[lab.Lab]:
    assert not state.exists()
    with lab.join([local_board()]) as running:
        yield running


def _server(state: Path) -> psutil.Process:
    return next(p for p in psutil.process_iter(["cmdline"]) if _serves(p, state))


def _serves(process: psutil.Process, state: Path) -> bool:
    try:
        return "serve" in process.cmdline() and str(state) in process.cwd()
    except psutil.Error:
        return False


def _granted(running: lab.Lab) -> Grant:
    with TrackerClient(HOST, running.port) as tracker:
        return session.wait_for_server(tracker, "local", 60, 30)


def test_a_session_with_the_right_runtime(running: lab.Lab) -> None:
    opened = open_session(HOST, running.port, "local", 30, 10, threads=1)
    assert opened.get_function("edge.fingerprint")() == expected_fingerprint()
    assert json.loads(opened.get_function("edge.info")())["fingerprint"] == expected_fingerprint()
    assert lab.status().keys["local"] == {"total": 1, "free": 0, "pending": 0}
    del opened
    until(lambda: lab.status().keys["local"]["free"] == 1)


def test_a_runtime_of_another_version_is_refused(running: lab.Lab) -> None:
    with pytest.raises(ToolchainError) as caught:
        open_session(HOST, running.port, "local", 30, 10, expected="0" * 32)
    assert expected_fingerprint() in caught.value.message
    assert "0" * 32 in caught.value.message
    assert "lab stop" in caught.value.hint
    until(lambda: lab.status().keys["local"]["free"] == 1)  # the session is not kept


def test_an_unknown_key_lists_the_known_ones(running: lab.Lab) -> None:
    with pytest.raises(UsageError, match="no board registers as 'rk3399' in the lab; its keys are: local"):
        open_session(HOST, running.port, "rk3399", 30, 10)


def test_an_offer_that_was_withdrawn_is_told(running: lab.Lab) -> None:
    grant = _granted(running)
    stale = dataclasses.replace(grant, match_key="edge-rt:1")
    with pytest.raises(ToolchainError, match=r"local: .* has withdrawn its offer: nobody came in time"):
        session.connect(stale, "local", 30)
    opened = session.connect(grant, "local", 30)
    assert opened.get_function("edge.fingerprint")() == expected_fingerprint()


def test_a_connection_that_breaks_off_at_any_byte_of_the_answers_is_told(running: lab.Lab) -> None:
    grant, said = _granted(running), []
    with breaking_off(grant.port) as port:
        while True:
            try:
                session.connect(dataclasses.replace(grant, port=port), "local", 30, threads=1)
            except ToolchainError as error:
                said.append(error.message)
            else:
                break
            grant = _granted(running)
    assert {text.partition(" failed: ")[0] for text in said} == {
        f"local: the session with the server at port {port}"
    }
    assert len(said) > 100, "there are as many bytes of answers"


def test_no_free_server(running: lab.Lab) -> None:
    opened = open_session(HOST, running.port, "local", 30, 10)
    begun = time.monotonic()
    with pytest.raises(ToolchainError, match=r"no server of local became free within 0\.3 s .*free 0"):
        open_session(HOST, running.port, "local", 30, 0.3)
    assert time.monotonic() - begun < 25
    assert lab.status().keys["local"]["pending"] == 0
    del opened


def test_a_server_that_dies_under_load_is_replaced(running: lab.Lab, state: Path) -> None:
    opened = open_session(HOST, running.port, "local", 30, 10)
    _server(state).kill()
    with pytest.raises(Exception, match=r"\S"):
        for _ in range(100):
            opened.get_function("edge.info")()
            time.sleep(0.01)
    again = open_session(HOST, running.port, "local", 30, 10)
    assert again.get_function("edge.fingerprint")() == expected_fingerprint()


def test_a_session_that_lasts_too_long_is_ended_by_the_server(running: lab.Lab) -> None:
    opened = open_session(HOST, running.port, "local", 3, 10)
    time.sleep(3.2)
    with pytest.raises(Exception, match=r"\S"):
        opened.get_function("edge.info")()
    until(lambda: lab.status().keys["local"]["free"] == 1)


def test_a_server_that_does_not_answer(running: lab.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_CONNECT_S", 0.5)
    before = threading.active_count()
    with socket.create_server((HOST, 0)) as silent, Peer(HOST, running.port) as server:
        server.register("silent", silent.getsockname()[1])
        with pytest.raises(ToolchainError, match=r"did not answer within 0\.5 s"):
            open_session(HOST, running.port, "silent", 30, 0.1)
    until(lambda: threading.active_count() <= before)


def test_a_server_that_has_gone(running: lab.Lab) -> None:
    with socket.create_server((HOST, 0)) as unused:
        port = unused.getsockname()[1]
    with Peer(HOST, running.port) as server:
        server.register("gone", port)
        begun = time.monotonic()
        with pytest.raises(ToolchainError, match="gone"):
            open_session(HOST, running.port, "gone", 30, 1)
        assert time.monotonic() - begun < 25


def test_no_lab() -> None:
    with socket.create_server((HOST, 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(ToolchainError, match="no tracker answers") as caught:
        open_session(HOST, port, "local", 30, 1)
    assert "lab start" in caught.value.hint


def test_a_server_that_is_not_edge_rt(running: lab.Lab) -> None:
    from tvm import rpc

    server = rpc.Server(HOST, tracker_addr=(HOST, running.port), key="python", silent=True)
    try:
        until(lambda: "python" in lab.status().keys)
        with pytest.raises(ToolchainError, match="python: the server there is not edge-rt"):
            open_session(HOST, running.port, "python", 30, 10)
    finally:
        server.terminate()
