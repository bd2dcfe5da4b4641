"""Processes in the background of a board, of this host or over SSH: they end as their owner says."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.boards.local.left import STUBBORN, assert_gone, pids
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import DeadlineError


@pytest.fixture(
    params=["local", *(pytest.param(each, marks=pytest.mark.slow) for each in ("ssh", "by_client"))]
)
def board(request: pytest.FixtureRequest, tmp_path: Path) -> LocalTransport | SshTransport:
    if request.param != "local":
        remote: SshTransport = request.getfixturevalue(request.param)
        return remote
    root = tmp_path / "root"
    root.mkdir()
    return LocalTransport(root)


def test_a_spawned_process_ends_with_its_input(board: LocalTransport | SshTransport) -> None:
    process = board.spawn(["sh", "-c", "echo ready; cat; exit 7"])
    assert process.stdout.readline() == b"ready\n"
    assert process.poll() is None
    process.close()
    assert process.poll() == 7, "it needed force"
    process.close()


@pytest.mark.slow
def test_a_spawned_process_deaf_to_everything_is_killed_with_its_children(
    board: LocalTransport | SshTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolchain.boards.local.process._EOF_SECONDS", 0.2)
    monkeypatch.setattr("toolchain.boards.local.process._TERM_SECONDS", 0.2)
    monkeypatch.setattr("toolchain.boards.ssh.transport.SshProcess.GRACE_TENTHS", 2)
    process = board.spawn(["sh", "-c", STUBBORN])
    numbers = pids(board)
    with pytest.raises(DeadlineError):
        process.wait(0.05)
    process.close()
    assert process.poll() == -signal.SIGKILL
    assert_gone(numbers)


def test_standard_error_of_a_spawned_process_goes_to_the_log(
    board: LocalTransport | SshTransport, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    for word in ("one", "two"):
        process = board.spawn(["sh", "-c", f"echo {word} >&2"], log)
        process.wait(60)
        process.close()
    assert log.read_text() == "one\ntwo\n"
