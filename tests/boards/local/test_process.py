"""Processes that a board of this host runs in the background: none outlives its owner."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.boards.local.left import STUBBORN, assert_gone, pids
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.transport import DeadlineError


def test_a_spawned_process_ends_with_its_input(board: LocalTransport) -> None:
    process = board.spawn(["sh", "-c", "echo ready; cat; exit 7"])
    assert process.stdout.readline() == b"ready\n"
    assert process.poll() is None
    process.close()
    assert process.poll() == 7, "it needed force"
    process.close()


def test_a_spawned_process_deaf_to_everything_is_killed_with_its_children(
    board: LocalTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolchain.boards.local.process._EOF_SECONDS", 0.2)
    monkeypatch.setattr("toolchain.boards.local.process._TERM_SECONDS", 0.2)
    process = board.spawn(["sh", "-c", STUBBORN])
    numbers = pids(board)
    with pytest.raises(DeadlineError):
        process.wait(0.05)
    process.close()
    assert process.poll() == -signal.SIGKILL
    assert_gone(numbers)


def test_children_left_by_a_spawned_process_end_with_it(board: LocalTransport) -> None:
    process = board.spawn(["sh", "-c", "sleep 300 & echo $! > pids; exit 0"])
    numbers = pids(board)
    assert process.wait(60) == 0
    process.close()
    assert_gone(numbers)


def test_a_spawned_process_ends_when_its_owner_is_killed(board: LocalTransport) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from toolchain.boards.local.transport import LocalTransport\n"
        "LocalTransport(Path(sys.argv[1])).spawn(['sh', '-c', 'echo $$ > pids; cat'])\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(board.root)]) as owner:
        numbers = pids(board)
        owner.kill()
    assert_gone(numbers)


def test_standard_error_of_a_spawned_process_goes_to_the_log(board: LocalTransport, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in ("one", "two"):
        process = board.spawn(["sh", "-c", f"echo {word} >&2"], log)
        process.wait(60)
        process.close()
    assert log.read_text() == "one\ntwo\n"
