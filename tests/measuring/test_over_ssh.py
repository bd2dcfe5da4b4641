"""Measurements over a real SSH server come out as they do without one."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.boards.ssh.sshd import Sshd, sshd
from tests.measuring.changed import code, with_library
from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import LostError
from toolchain.bundles.read import Bundle
from toolchain.errors import ToolchainError
from toolchain.measuring.bench import bench_bundle
from toolchain.measuring.execution import OnBoard, Sampling
from toolchain.measuring.verify import verify_bundle

pytestmark = pytest.mark.slow
LONG = Sampling(repeat=600, min_repeat_ms=1000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def remote(server: Sshd, local: Board, tmp_path: Path) -> Iterator[Board]:
    """This host as a board over SSH, with a folder of its own."""
    (tmp_path / "board").mkdir()
    transport = SshTransport(server.address(name="far"), str(tmp_path / "board"))
    yield dataclasses.replace(local, name="far", transport=transport)
    transport.close()


def seen_from_another_host(board: Board) -> Board:
    """Return the same board behind another connection."""
    transport = board.transport
    assert isinstance(transport, SshTransport)
    return dataclasses.replace(board, transport=SshTransport(transport.address, transport.root))


def root_of(board: Board) -> str:
    """Return the board's folder."""
    assert isinstance(board.transport, SshTransport)
    return board.transport.root


def runners(board: Board) -> list[psutil.Process]:
    """Return the processes that measure on the board."""
    found = []
    root = root_of(board)
    for process in psutil.process_iter(["name", "cwd"]):
        here = process.info["cwd"] == root
        if here and process.info["name"].startswith("edge-rt") and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def until_none_runs(board: Board) -> None:
    until(lambda: not runners(board))


def test_verify_and_bench(for_local: Bundle, remote: Board, local: Board) -> None:
    there, here = verify_bundle(for_local, OnBoard(remote)), verify_bundle(for_local, OnBoard(local))
    assert there.passed
    assert there.comparison == here.comparison
    timed = bench_bundle(for_local, OnBoard(remote), Sampling(time_s=0.2)).to_json()
    assert timed["mean_ms"] > 0
    assert timed["board"] == "far"
    assert remote.transport.listing("run") == {}


def test_crash_is_reported_with_signal(for_local: Bundle, remote: Board) -> None:
    begin, end = code(for_local.library)
    broken = (b"\x0f\x0b" * (end - begin))[: end - begin]  # ud2; what lies behind stays where it is
    library = for_local.library[:begin] + broken + for_local.library[end:]
    with pytest.raises(ToolchainError, match="on board far: the library crashed with SIGILL"):
        verify_bundle(with_library(for_local, library), OnBoard(remote))
    assert remote.transport.listing("run") == {}


def test_command_is_killed_on_board_after_timeout(for_local: Bundle, remote: Board) -> None:
    with pytest.raises(ToolchainError, match=r"did not end within 2 s \(given by --timeout\)"):
        bench_bundle(for_local, OnBoard(remote, timeout=2), LONG)
    until_none_runs(remote)
    assert remote.transport.listing("run") == {}


def test_two_hosts_take_turns(for_local: Bundle, remote: Board) -> None:
    other = seen_from_another_host(remote)
    verify_bundle(for_local, OnBoard(remote))
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(bench_bundle, for_local, OnBoard(remote), Sampling(repeat=3, min_repeat_ms=1000))
        lock = Path(root_of(remote)) / "state" / "measure.lock"
        until(lambda: lock.exists() and b"bench" in lock.read_bytes())
        with pytest.raises(
            ToolchainError, match=r"board far is busy: bench .* \(process \d+ there\) holds it"
        ):
            verify_bundle(for_local, OnBoard(other))
        assert verify_bundle(for_local, OnBoard(other, wait=60)).passed
        assert busy.result(timeout=60).to_json()["mean_ms"] > 0
    other.transport.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_lost_board_is_reported_soon(
    for_local: Bundle, remote: Board, server: Sshd, how: signal.Signals
) -> None:
    verify_bundle(for_local, OnBoard(remote))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(bench_bundle, for_local, OnBoard(remote), LONG)
        until(lambda: runners(remote))
        sessions = server.sessions()
        assert sessions
        for session in sessions:
            session.send_signal(how)
        try:
            with pytest.raises(LostError, match="board far: the connection was lost"):
                running.result(timeout=120)  # it would have gone on for ten minutes
        finally:
            for session in sessions:
                if how == signal.SIGSTOP:
                    session.resume()
    until_none_runs(remote)
    assert verify_bundle(for_local, OnBoard(remote)).passed
