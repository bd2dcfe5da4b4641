"""Sessions of labs in the queue for a board's lock: they take turns, and their servers tell who waits."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psutil
import pytest
import tvm
from tvm import relax, rpc

from tests.rpc.peers import running_tracker
from tests.runtime.conftest import Case, Edge
from tests.runtime.sessions import request
from tests.runtime.waiters import Board, held
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled


@pytest.fixture
def board(native: Edge, dense: Case) -> Iterator[Board]:
    started = Board(native, dense)
    yield started
    started.end()


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
def test_continuous_measuring_starves_nobody(board: Board, tracker: int) -> None:
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
            turns = lab.turns
            until(partial(board.waits_no_more, waiting))
            # The one that was measured then, and one that had ended but was not counted yet.
            assert lab.turns - turns <= 2
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
        counted.append(sorted(one.turns for one in labs))

    with ThreadPoolExecutor(2) as pool:
        with held(board.state):
            measuring = [pool.submit(measure, lab) for lab in labs]
            until(lambda: len(board.pids()) == 2, what="that both wait")
            words = {waiter["what"] for waiter in board.status()[1]}
            assert words == {"rpc session for anna@desk", "rpc session for ben@lap"}
        for one in measuring:
            one.result(PATIENCE_S)
    assert counted[0][0] >= turns // 2, f"when one had its {turns} turns: {counted}"
    assert counted[1] == [turns, turns]


def fail(measure: Callable[[], None]) -> None:
    with pytest.raises(Exception, match=r"\S"):
        measure()


def test_server_reports_what_its_session_waits_for(
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
        lines = heard()
        assert lines["holder"] == {"pid": os.getpid(), "what": "bench of a neighbour"}
        assert lines["ahead"] == 1 and lines["waited_s"] >= 1
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


@pytest.mark.usefixtures("server")
def test_session_that_times_out_in_the_queue_is_told(board: Board, tracker: int) -> None:
    lab = Lab(request(tracker, timeout=20), board.dense, 0)
    with (
        held(board.state, "bench of a neighbour"),
        pytest.raises(tvm.error.RPCSessionTimeoutError) as raised,
    ):
        lab.measure()
    assert "while it waited for the board" in str(raised.value) and "bench of a neighbour" in str(
        raised.value
    )


@pytest.mark.usefixtures("server")
def test_session_with_a_late_turn_is_told(board: Board, tracker: int) -> None:
    lab = Lab(request(tracker, timeout=15), board.dense, 60_000)
    with ThreadPoolExecutor(1) as pool:
        with held(board.state):
            measuring = pool.submit(lab.measure)
            until(lambda: [ticket for ticket in board.status()[1] if ticket["waited_s"] > 3])
        with pytest.raises(
            tvm.error.RPCSessionTimeoutError, match="while it waited for the board: it had its"
        ):
            measuring.result(PATIENCE_S)
