"""The queue for a board's measuring lock: first come, first served, whatever happens to those that wait."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import tvm
from tvm import relax, rpc

from tests.rpc.peers import running_tracker
from tests.runtime.conftest import Case, Edge
from tests.runtime.sessions import request
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

BUSY = 75
TICKET = re.compile(r"\d{19}-\d+")


@contextmanager
def held(state: Path, what: str = "bench of another") -> Iterator[None]:
    """Hold the lock as a measurement does."""
    state.mkdir(mode=0o700, exist_ok=True)
    with (state / "measure.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f'{{"pid": {os.getpid()}, "what": "{what}"}}\n')
        file.flush()
        yield
        file.truncate(0)


class Board:
    """A state folder with those that wait in it."""

    def __init__(self, native: Edge, dense: Case) -> None:
        self.native, self.dense = native, dense
        self.state = Path(dense.arguments[-1])
        self.folder = self.state.parent
        self.processes: list[subprocess.Popen[bytes]] = []

    def status(self) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
        """Return who holds the lock, and who waits."""
        code, said = self.native("info", "--state", self.state)
        assert code == 0
        return said["holder"], said["waiting"]

    def pids(self) -> list[int]:
        return [waiter["pid"] for waiter in self.status()[1]]

    def output(self, name: str) -> Path:
        return self.folder / f"{name}.npz"

    def wait(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a process that waits for its turn to compute `output(name)`; return when it waits."""
        arguments = [*self.dense.arguments, "--output", self.output(name), "--wait", PATIENCE_S, *options]
        command = [*self.native.command, "run", *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        until(lambda: process.pid in self.pids(), what=f"that {name} waits")
        return process

    def waits_no_more(self, process: subprocess.Popen[bytes]) -> bool:
        return process.pid not in self.pids()

    def tickets(self) -> list[str]:
        return sorted(path.name for path in (self.state / "measure.queue").iterdir())

    def turns(self) -> list[str]:
        """Return the names in the order of their turns: outputs are written before the lock is given back."""
        return [path.stem for path in sorted(self.folder.glob("*.npz"), key=lambda p: p.stat().st_mtime_ns)]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def board(native: Edge, dense: Case) -> Iterator[Board]:
    made = Board(native, dense)
    yield made
    made.end()


def ended(processes: list[subprocess.Popen[bytes]]) -> list[int]:
    return [process.wait(PATIENCE_S) for process in processes]


def test_first_come_first_served_and_everybody_sees_it(board: Board) -> None:
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


def test_who_does_not_wait_does_not_push_in(board: Board) -> None:
    with held(board.state):
        first = board.wait("first")
        board.wait("second")
        # It would take a free lock within 10 ms; while it is stopped the lock lies free.
        first.send_signal(signal.SIGSTOP)
        code, said = board.native("bench", *board.dense.arguments)
        assert code == BUSY
        assert (said["error"]["holder"]["what"], said["error"]["ahead"]) == ("bench of another", 2)
    for process in board.processes:
        process.send_signal(signal.SIGSTOP)
    code, said = board.native("bench", *board.dense.arguments)
    assert (code, said["error"]["kind"]) == (BUSY, "busy")
    assert (said["error"]["holder"]["pid"], said["error"]["ahead"]) == (first.pid, 1)
    for process in board.processes:
        process.send_signal(signal.SIGCONT)
    assert ended(board.processes) == [0, 0]
    assert board.native("bench", *board.dense.arguments)[0] == 0


def test_who_gives_up_leaves_no_ticket_and_says_who_is_ahead(board: Board) -> None:
    with held(board.state):
        first = board.wait("first")
        code, said = board.native("bench", *board.dense.arguments, "--wait", "0.3")
        assert (code, said["error"]["ahead"]) == (BUSY, 1)
        assert said["error"]["holder"] == {"pid": os.getpid(), "what": "bench of another"}
        assert "1 more wait for it" in said["error"]["message"]
        assert board.pids() == [first.pid]


@pytest.mark.parametrize("place", [0, 1])
def test_a_killed_waiter_delays_nobody(board: Board, place: int) -> None:
    with held(board.state):
        waiting = [board.wait(name) for name in ("a", "b", "c")]
        waiting[place].kill()
        waiting[place].wait()
        assert len(board.tickets()) == 3, "it leaves its ticket"
        left = [process for process in waiting if process is not waiting[place]]
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


def test_leftovers_of_another_boot_are_nobody(board: Board) -> None:
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


def test_whatever_lies_in_the_folder_stops_nobody(board: Board, tmp_path: Path) -> None:
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
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / f"{7:019d}-1"))
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


def test_a_ticket_says_what_its_process_wrote_or_nothing(board: Board) -> None:
    folder = board.state / "measure.queue"
    folder.mkdir(parents=True)
    board.state.chmod(0o700)
    said = {
        '{"pid": 7, "what": "run a \\"b\\""}\n': (7, 'run a "b"'),
        '{"pid": 7, "what": "x", "more": 1}\n': (4711, ""),
        '{"pid": 7, "what": "\x1b[31mred"}\n': (4711, ""),
        '{"pid": -7, "what": "x"}\n': (4711, ""),
        "x" * 100_000: (4711, ""),
        "": (4711, ""),
    }
    with ExitStack() as stack:
        for number, words in enumerate(said):
            file = stack.enter_context((folder / f"{number:019d}-4711").open("w", encoding="latin-1"))
            file.write(words)
            file.flush()
            fcntl.flock(file, fcntl.LOCK_EX)
        assert [(waiter["pid"], waiter["what"]) for waiter in board.status()[1]] == list(said.values())
    assert board.status()[1] == []


def test_a_folder_that_leads_elsewhere_is_refused_by_who_must_wait(board: Board, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    board.state.mkdir(mode=0o700)
    (board.state / "measure.queue").symlink_to(tmp_path / "elsewhere")
    assert board.native("bench", *board.dense.arguments)[0] == 0
    with held(board.state):
        code, said = board.native("bench", *board.dense.arguments, "--wait", "60")
    assert (code, said["error"]["kind"]) == (1, "state") and "is no folder" in said["error"]["message"]
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["kept"]


def test_with_too_many_before_it_one_waits_without_a_ticket(board: Board) -> None:
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


def test_whose_ticket_was_removed_makes_itself_another(board: Board) -> None:
    with held(board.state):
        first, second = board.wait("a"), board.wait("b")
        for name in board.tickets():
            (board.state / "measure.queue" / name).unlink()
        (board.state / "measure.queue").rmdir()
        until(lambda: board.pids() == [first.pid, second.pid], what="the same order again")
    assert ended([first, second]) == [0, 0]
    assert board.turns() == ["a", "b"]


def test_an_older_edge_rt_that_knows_the_lock_alone_is_excluded_and_excludes(board: Board) -> None:
    with held(board.state), (board.state / "measure.lock").open() as other:
        first = board.wait("a", "--for", "anna@desk")
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert ended([first]) == [0]


@pytest.mark.parametrize("whom", ["two words", 'a"b', "back\\slash", "x" * 65, "\x1b[31m", "é"])
def test_who_measures_is_one_plain_word(board: Board, whom: str) -> None:
    code, said = board.native("bench", *board.dense.arguments, "--for", whom)
    assert (code, said["error"]["kind"]) == (2, "usage") and "USER@HOST" in said["error"]["message"]


class Lab:
    """A client that measures again and again in a session of its own, as a lab does."""

    def __init__(self, session: rpc.RPCSession, dense: Case, min_repeat_ms: int) -> None:
        self.session = session
        session.upload(str(dense.library))
        machine = relax.VirtualMachine(session.load_module("dense.so"), session.cpu())
        machine.set_input("main", *(tvm.runtime.tensor(a, session.cpu()) for a in (dense.x, dense.bias)))
        options = {"number": 1, "repeat": 1, "min_repeat_ms": min_repeat_ms}
        self._timer = machine.time_evaluator("invoke_stateful", session.cpu(), **options)
        self.turns = 0

    def measure(self) -> None:
        self._timer("main")
        self.turns += 1

    def goes_on(self, after: int) -> bool:
        """Return whether it has had another turn since then."""
        return self.turns > after


@pytest.mark.usefixtures("server")
def test_a_lab_that_measures_without_a_pause_keeps_nobody_waiting(board: Board, tracker: int) -> None:
    lab, stopped = Lab(request(tracker), board.dense, 100), threading.Event()

    def measure() -> None:
        while not stopped.is_set():
            lab.measure()

    thread = threading.Thread(target=measure)
    thread.start()
    try:
        until(lambda: lab.turns > 1)
        for number in range(3):
            waiting = board.wait(str(number), "--for", "ben@desk")
            seen = lab.turns
            until(partial(board.waits_no_more, waiting))
            # The one that was measured then, and one that had ended but was not counted yet.
            assert lab.turns - seen <= 2
            assert waiting.wait(PATIENCE_S) == 0
            until(partial(lab.goes_on, lab.turns), what="that the lab goes on")
    finally:
        stopped.set()
        thread.join(PATIENCE_S)


def test_two_labs_share_a_board(native: Edge, board: Board, tracker: int) -> None:
    with (
        running_tracker() as second,
        native.serving(board.state, tracker, "--for", "anna@desk"),
        native.serving(board.state, second, "--for", "ben@lap"),
    ):
        take_turns(board, tracker, second)
        until(lambda: not list((board.state / "sessions").iterdir()), what="the end of the sessions")


def take_turns(board: Board, *trackers: int) -> None:
    """Let two labs begin to measure at the same time, and check that none has many more turns."""
    turns, counted = 12, []
    labs = [Lab(request(port), board.dense, 50) for port in trackers]

    def measure(lab: Lab) -> None:
        for _ in range(turns):
            lab.measure()
        counted.append(sorted(each.turns for each in labs))

    with ThreadPoolExecutor(2) as pool:
        with held(board.state):
            measuring = [pool.submit(measure, lab) for lab in labs]
            until(lambda: len(board.pids()) == 2, what="that both wait")
            words = {waiter["what"] for waiter in board.status()[1]}
            assert words == {"rpc session for anna@desk", "rpc session for ben@lap"}
        for each in measuring:
            each.result(PATIENCE_S)
    assert counted[0][0] >= turns // 2, f"when one had its {turns} turns: {counted}"
    assert counted[1] == [turns, turns]


def fail(measure: Callable[[], None]) -> None:
    with pytest.raises(Exception, match=r"\S"):
        measure()


def test_a_server_tells_what_its_session_waits_for(
    board: Board, server: subprocess.Popen[bytes], tracker: int
) -> None:
    def heard() -> Any:
        assert server.stdout is not None
        return json.loads(server.stdout.readline())["waiting"]

    lab = Lab(request(tracker), board.dense, 0)
    lab.measure()  # that does not wait, and nothing is told
    thread = threading.Thread(target=lab.measure)
    with held(board.state, "bench of a neighbour"):
        first = board.wait("a")
        thread.start()
        said = heard()
        assert said["holder"] == {"pid": os.getpid(), "what": "bench of a neighbour"}
        assert said["ahead"] == 1 and said["waited_s"] >= 1
        first.kill()
        first.wait()
        assert heard()["ahead"] == 0
    thread.join(PATIENCE_S)
    assert heard() is None
    # One whose client leaves while it waits is told of, too.
    with held(board.state):
        thread = threading.Thread(target=fail, args=(lab.measure,))
        thread.start()
        assert heard()["ahead"] == 0
        (child,) = psutil.Process(server.pid).children()
        child.kill()
        assert heard() is None
    thread.join(PATIENCE_S)
