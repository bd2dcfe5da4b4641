"""The queue for a board's measuring lock: first come, first served, whatever happens to those that wait."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.runtime.conftest import Case, Edge
from tests.runtime.waiters import Board, ended, held
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

BUSY = 75
TICKET = re.compile(r"\d{19}-\d+")


@pytest.fixture
def board(native: Edge, dense: Case) -> Iterator[Board]:
    started = Board(native, dense)
    yield started
    started.end()


def test_first_come_first_served(board: Board) -> None:
    names = ["a", "b", "c", "d", "e"]
    with held(board.state):
        waiting = [board.wait(name, "--for", f"{name}@desk") for name in names]
        holder, waiters = board.status()
        assert holder == {"pid": os.getpid(), "what": "bench of another"}
        assert [waiter["pid"] for waiter in waiters] == [process.pid for process in waiting]
        assert [waiter["what"].rpartition(" for ")[2] for waiter in waiters] == [f"{n}@desk" for n in names]
        assert waiters[0]["what"].startswith(f"run {board.dense.library}")
        seconds = [waiter["waited_s"] for waiter in waiters]
        assert seconds == sorted(seconds, reverse=True) and seconds[-1] >= 0
        assert all(TICKET.fullmatch(name) for name in board.tickets())
        assert {
            (board.state / "measure.queue" / name).stat().st_mode & 0o777 for name in board.tickets()
        } == {0o600}
        assert (board.state / "measure.queue").stat().st_mode & 0o777 == 0o700
    assert ended(waiting) == [0] * 5
    assert board.turns() == names
    assert board.status() == (None, []) and board.tickets() == []


def test_no_wait_does_not_jump_the_queue(board: Board) -> None:
    with held(board.state):
        board.wait("first")
        board.wait("second")
        code, answer = board.native("bench", *board.dense.arguments)
        assert (code, answer["error"]["kind"]) == (BUSY, "busy")
        assert (answer["error"]["holder"]["what"], answer["error"]["ahead"]) == ("bench of another", 2)


def test_no_wait_passes_stopped_waiters(board: Board) -> None:
    with held(board.state):
        waiting = [board.wait("first"), board.wait("second")]
        for process in waiting:
            process.send_signal(signal.SIGSTOP)
    assert board.native("bench", *board.dense.arguments)[0] == 0
    for process in waiting:
        process.send_signal(signal.SIGCONT)
    assert ended(waiting) == [0, 0]


def test_timed_out_waiter_leaves_no_ticket(board: Board) -> None:
    with held(board.state):
        first = board.wait("first")
        code, answer = board.native("bench", *board.dense.arguments, "--wait", "0.3")
        assert (code, answer["error"]["ahead"]) == (BUSY, 1)
        assert answer["error"]["holder"] == {"pid": os.getpid(), "what": "bench of another"}
        assert "1 more wait for it" in answer["error"]["message"]
        assert board.pids() == [first.pid]


@pytest.mark.parametrize("place", [0, 1])
def test_a_killed_waiter_delays_nobody(board: Board, place: int) -> None:
    with held(board.state):
        waiting = [board.wait(name) for name in ("a", "b", "c")]
        left = [process for process in waiting if process is not waiting[place]]
        for process in left:  # a waiter that looks would remove the ticket before the next lines do
            process.send_signal(signal.SIGSTOP)
        until(lambda: all(psutil.Process(one.pid).status() == psutil.STATUS_STOPPED for one in left))
        waiting[place].kill()
        waiting[place].wait()
        assert len(board.tickets()) == 3, "it leaves its ticket"
        for process in left:
            process.send_signal(signal.SIGCONT)
        assert board.pids() == [process.pid for process in left]
        assert len(board.tickets()) == 2, "whoever looks removes it"
    assert ended(left) == [0, 0]
    assert board.turns() == [name for name in "abc" if name != "abc"[place]]


def test_a_stopped_waiter_is_passed_and_keeps_its_place(board: Board) -> None:
    with held(board.state):
        sleeping = board.wait("sleeping")
        board.wait("second")
        board.wait("third")
        sleeping.send_signal(signal.SIGSTOP)
    assert ended(board.processes[1:]) == [0, 0]
    assert board.turns() == ["second", "third"]
    with held(board.state):
        board.wait("late")
        sleeping.send_signal(signal.SIGCONT)
        until(
            lambda: board.pids() == [sleeping.pid, board.processes[-1].pid], what="that it is the first again"
        )
    assert ended([sleeping, board.processes[-1]]) == [0, 0]


def test_tickets_of_another_boot_are_ignored(board: Board) -> None:
    with held(board.state):
        board.wait("a")
        (name,) = board.tickets()
        folder = board.state / "measure.queue"
        # One of a clock that ran longer, one of a clock that had just begun; neither is locked.
        for leftover in (f"{'9' * 18}0-1", f"{1:019d}-1"):
            (folder / leftover).write_text('{"pid": 1, "what": "bench of the day before"}\n')
        waiting = board.wait("b")
        assert board.pids() == [board.processes[0].pid, waiting.pid]
        assert name in board.tickets() and len(board.tickets()) == 2
    assert ended(board.processes) == [0, 0]
    assert board.turns() == ["a", "b"]


def test_foreign_files_in_the_queue_are_ignored(board: Board, tmp_path: Path) -> None:
    folder, victim = board.state / "measure.queue", tmp_path / "victim"
    folder.mkdir(parents=True)
    board.state.chmod(0o700)
    victim.mkdir()
    (victim / "kept").write_text("keep me")
    (folder / f"{1:019d}-1").symlink_to(victim)
    (folder / f"{2:019d}-1").symlink_to(victim / "kept")
    (folder / f"{3:019d}-1").mkdir()
    (folder / f"{4:019d}-1").mkdir()
    (folder / f"{4:019d}-1" / "file").touch()
    os.mkfifo(folder / f"{5:019d}-1")
    os.link(victim / "kept", folder / f"{6:019d}-1")
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(folder):  # a socket's path has to be short
        server.bind(f"{7:019d}-1")
    for name in (
        "-1",
        f"-{1:018d}-1",
        f"{1:019d}",
        f"{1:019d}-",
        f"{1:019d}--1",
        f"{1:020d}-1",
        "\udcff\n\x1b",
        ".x",
    ):
        (folder / name).write_bytes(b"\0" * 5000)
    for number in range(300):
        (folder / f"{1000 + number:019d}-{number + 1}").write_bytes(b'{"pid": 1, "what": "' * 999)
    assert board.status() == (None, [])
    assert board.native("bench", *board.dense.arguments)[0] == 0
    with held(board.state):
        first, second = board.wait("a"), board.wait("b")
        assert board.pids() == [first.pid, second.pid]
        assert [name for name in board.tickets() if not TICKET.fullmatch(name)] == []
    assert ended([first, second]) == [0, 0]
    assert board.turns() == ["a", "b"]
    assert (victim / "kept").read_text() == "keep me"
    assert board.tickets() == [f"{4:019d}-1"], "a folder with something in it alone"


def test_ticket_contents_are_validated(board: Board) -> None:
    folder = board.state / "measure.queue"
    folder.mkdir(parents=True)
    board.state.chmod(0o700)
    purposes = {
        '{"pid": 7, "what": "run a \\"b\\""}\n': (7, 'run a "b"'),
        '{"pid": 7, "what": "x", "more": 1}\n': (4711, ""),
        '{"pid": 7, "what": "\x1b[31mred"}\n': (4711, ""),
        '{"pid": -7, "what": "x"}\n': (4711, ""),
        "x" * 100_000: (4711, ""),
        "": (4711, ""),
    }
    with ExitStack() as stack:
        for number, words in enumerate(purposes):
            file = stack.enter_context((folder / f"{number:019d}-4711").open("w", encoding="latin-1"))
            file.write(words)
            file.flush()
            fcntl.flock(file, fcntl.LOCK_EX)
        assert [(waiter["pid"], waiter["what"]) for waiter in board.status()[1]] == list(purposes.values())
    assert board.status()[1] == []


def test_refuses_a_queue_folder_that_is_a_link(board: Board, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    board.state.mkdir(mode=0o700)
    (board.state / "measure.queue").symlink_to(tmp_path / "elsewhere")
    assert board.native("bench", *board.dense.arguments)[0] == 0
    with held(board.state):
        code, answer = board.native("bench", *board.dense.arguments, "--wait", "60")
    assert (code, answer["error"]["kind"]) == (1, "state") and "is no folder" in answer["error"]["message"]
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["kept"]


def test_full_queue_waits_without_a_ticket(board: Board) -> None:
    folder = board.state / "measure.queue"
    folder.mkdir(parents=True)
    board.state.chmod(0o700)
    with ExitStack() as crowd, held(board.state):
        for number in range(64):
            fcntl.flock(crowd.enter_context((folder / f"{number:019d}-1").open("w")), fcntl.LOCK_EX)
        arguments = [*board.dense.arguments, "--wait", str(PATIENCE_S)]
        process = subprocess.Popen(
            [*board.native.command, "bench", *map(str, arguments)], stdout=subprocess.DEVNULL
        )
        board.processes.append(process)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        assert len(board.tickets()) == 64
        crowd.close()
    assert process.wait(PATIENCE_S) == 0
    assert board.tickets() == []


def test_removed_ticket_is_made_again(board: Board) -> None:
    with held(board.state):
        first, second = board.wait("a"), board.wait("b")
        for name in board.tickets():
            (board.state / "measure.queue" / name).unlink()
        (board.state / "measure.queue").rmdir()
        until(lambda: board.pids() == [first.pid, second.pid], what="the same order again")
    assert ended([first, second]) == [0, 0]
    assert board.turns() == ["a", "b"]


def test_older_edge_rt_shares_the_lock(board: Board) -> None:
    with held(board.state), (board.state / "measure.lock").open() as other:
        first = board.wait("a", "--for", "anna@desk")
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert ended([first]) == [0]


@pytest.mark.parametrize("whom", ["two words", 'a"b', "back\\slash", "x" * 65, "\x1b[31m", "é"])
def test_purpose_is_one_plain_word(board: Board, whom: str) -> None:
    code, answer = board.native("bench", *board.dense.arguments, "--for", whom)
    assert (code, answer["error"]["kind"]) == (2, "usage") and "USER@HOST" in answer["error"]["message"]
