from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.rpc.peers import Peer, listening
from tests.waiting import until
from toolchain.boards.emulation import emulated
from toolchain.boards.inventory.lookup import local_board
from toolchain.errors import ToolchainError, UsageError
from toolchain.processes.life import Life
from toolchain.rpc import lab, session
from toolchain.rpc import state as lab_state
from toolchain.rpc.frames import HOST

# Each takes about a second, and the first compiles edge-rt if it must.
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
FREE = {"total": 1, "free": 1, "pending": 0}


@pytest.fixture(autouse=True)
def cleared(state: Path) -> Iterator[Path]:
    """No lab outlives its test, whatever the test did to it."""
    yield state
    running = lab_state.read_state(lab_state.folder())
    lab.stop()
    if running is not None:
        assert running.supervisor.ends_within(60)
    assert family(state) == []


def family(state: Path) -> list[psutil.Process]:
    """Return the processes that a lab below this folder started, supervisors included."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = str(state) in process.cwd() or str(state) in " ".join(process.cmdline())
            if ours and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def servers(state: Path) -> list[psutil.Process]:
    """Return the servers of the boards."""
    found = []
    for process in family(state):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            if "serve" in process.cmdline():
                found.append(process)
    return found


def test_start_status_stop(state: Path) -> None:
    assert lab.status() is None
    started = lab.start([local_board()])
    assert started.to_json()["tracker"] == f"{HOST}:{started.port}"
    assert started.to_json()["keys"] == {"local": FREE}
    assert lab.status() == started
    pids = {process.pid for process in family(state)}
    assert len(pids) == 2
    assert listening(pids) == {"0100007F"}  # 127.0.0.1, tcp and tcp6 read
    assert lab.stop() is True
    assert family(state) == []
    assert lab.status() is None
    assert sorted(path.name for path in (state / "lab").iterdir()) == ["lock", "log"]
    assert lab.stop() is False


def test_a_lab_that_is_about_to_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tracker has ended, and its process not yet."""
    lab_state.folder().mkdir(parents=True)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as ending, socket.socket() as nobody:
        nobody.bind((HOST, 0))  # and does not listen
        life = Life.of(ending.pid)
        assert life is not None and ending.stdin is not None
        lab_state.write_state(lab_state.folder(), lab_state.LabState(life, nobody.getsockname()[1], {}))
        with monkeypatch.context() as hurried, pytest.raises(ToolchainError, match="no tracker answers"):
            hurried.setattr(lab, "_KILL_S", 0.1)
            lab.status()
        threading.Timer(0.2, ending.stdin.close).start()
        assert lab.status() is None


def test_a_second_start_joins_and_adds_boards() -> None:
    first = lab.start([local_board()])
    board = emulated.start("x86_64", kind="process", name="second")
    second = lab.start([local_board(), board])
    assert (second.pid, second.port) == (first.pid, first.port)
    assert second.keys == {"local": FREE, "x86_64+emulated": FREE}
    assert {name: board.state for name, board in second.boards.items()} == {
        "local": "serving",
        "second": "serving",
    }
    with pytest.raises(ToolchainError, match=f"already runs, its tracker is at port {first.port}"):
        lab.start([], port=first.port - 1)


def test_two_at_once_are_one_lab() -> None:
    program = [sys.executable, "-m", "tests.rpc.lab_user", "start"]
    both = [subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    ports = {process.communicate(timeout=60)[0] for process in both}
    assert len(ports) == 1
    assert lab.status().keys == {"local": FREE}


def test_a_port_in_use(state: Path) -> None:
    with socket.create_server((HOST, 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(ToolchainError, match=f"port {port} is in use by .*pid {os.getpid()}") as caught:
            lab.start([local_board()], port=port)
    assert "choose another port" in caught.value.hint
    assert lab.status() is None
    until(lambda: family(state) == [])


def test_a_given_port() -> None:
    with socket.create_server((HOST, 0)) as unused:
        port = unused.getsockname()[1]
    assert lab.start([], port=port).port == port


def test_a_server_that_does_not_start_leaves_nothing(state: Path) -> None:
    said = r"board local: the server has ended: .*--threads 0"
    with pytest.raises(ToolchainError, match=said) as caught, lab.join([local_board()], threads=0):
        pass
    assert "local.log" in caught.value.hint
    assert family(state) == []
    assert lab.status() is None


def test_a_board_that_fails_leaves_the_others_alone() -> None:
    started = lab.start([local_board()])
    board = emulated.start("x86_64", kind="process", name="second")
    with pytest.raises(ToolchainError, match="board second"), lab.join([board], threads=0):
        pass
    assert lab.status() == started


def test_a_killed_supervisor_takes_its_servers_along(state: Path) -> None:
    started = lab.start([local_board()])
    (server,) = servers(state)
    os.kill(started.pid, signal.SIGKILL)
    until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)
    assert (state / "lab" / "lab.json").exists()  # it could not clear up
    assert lab.status() is None
    again = lab.start([local_board()])
    assert again.pid != started.pid
    assert again.keys == {"local": FREE}


def test_a_number_that_came_again_is_not_the_supervisor(state: Path) -> None:
    lab.start([])
    lab.stop()
    own = Life(os.getpid(), "another start of the machine 1")
    lab_state.write_state(state / "lab", lab_state.LabState(own, 1, {}))
    assert lab.status() is None
    assert lab.stop() is False  # and we are still here
    assert not (state / "lab" / "lab.json").exists()


def test_a_killed_server_is_started_again(state: Path) -> None:
    lab.start([local_board()])
    (server,) = servers(state)
    for _ in range(3):
        server.kill()
        gone = server.pid
        until(lambda: [p.pid for p in servers(state)] not in ([], [gone]))  # noqa: B023
        until(lambda: lab.status().keys == {"local": FREE})
        (server,) = servers(state)


def test_a_key_stays_known_while_its_server_is_away(state: Path) -> None:
    started = lab.start([local_board()])
    (server,) = servers(state)
    with Peer(HOST, started.port) as client:
        server.kill()
        until(lambda: client.summary()["local"]["total"] == 0)
        assert client.request("local", wait_s=10) is not None


def test_a_removed_folder_ends_the_lab(state: Path) -> None:
    lab.start([local_board()])
    supervisor = lab_state.read_state(state / "lab").supervisor
    shutil.rmtree(state / "lab")
    assert supervisor.ends_within(60)
    assert family(state) == []


def test_a_supervisor_that_hangs_can_be_stopped(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "_STOP_S", 0.5)
    monkeypatch.setattr(lab, "_KILL_S", 0.5)
    started = lab.start([local_board()])
    os.kill(started.pid, signal.SIGSTOP)
    begun = time.monotonic()
    assert lab.stop() is True
    assert time.monotonic() - begun < 25
    until(lambda: family(state) == [])


def test_joined_stops_what_it_started_and_nothing_else(state: Path) -> None:
    with lab.join([local_board()]) as outer:
        with lab.join([local_board()]) as inner:
            assert inner == outer
        assert lab.status().keys == {"local": FREE}
    assert family(state) == []
    kept = lab.start([])
    with lab.join([local_board()]):
        assert lab.status().keys == {"local": FREE}
    assert lab.status().pid == kept.pid


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_lab_ends_with_its_last_user(state: Path, number: signal.Signals) -> None:
    program = [sys.executable, "-m", "tests.rpc.lab_user", "joined"]
    with subprocess.Popen(
        program, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as user:
        assert int(user.stdout.readline()) == lab.status().port
        user.send_signal(number)
        user.wait(timeout=60)
    until(lambda: family(state) == [])
    assert lab.status() is None


def test_a_folder_that_cannot_be_written(state: Path) -> None:
    state.mkdir()
    (state / "lab").touch()
    with pytest.raises(ToolchainError, match=r"cannot write .*lab"):
        lab.start([])


def test_a_lease_that_outlives_its_time_is_taken_back(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_MARGIN_S", 0.5)
    started = lab.start([local_board()])
    opened = session.open_session(HOST, started.port, "local", 5, 10)
    stuck = [process for process in family(state) if process.name().startswith("edge-rt")]
    assert len(stuck) == 2  # the server, and its session, which cannot end it
    for process in stuck:
        process.suspend()
    until(lambda: not any(process.is_running() for process in stuck))
    until(lambda: lab.status().keys == {"local": FREE})
    assert lab.status().leases == ()
    del opened


def test_release_without_a_lab() -> None:
    with pytest.raises(UsageError, match="no lab runs"):
        lab.release("local")


def test_who_holds_a_board_and_who_waits_for_it() -> None:
    started = lab.start([local_board()])
    opened = session.open_session(HOST, started.port, "local", 60, 10)
    waiting = threading.Thread(
        target=lambda: session.open_session(HOST, started.port, "local", 60, 60), daemon=True
    )
    waiting.start()
    until(lambda: lab.status().waiting)
    found = lab.status()
    (lease,), (request,) = found.leases, found.waiting
    assert lease["board"] == "local" and request["key"] == "local" and request["board"] is None
    assert request["user"] == f"process {os.getpid()}" and request["waited_s"] >= 0
    del opened
    waiting.join(60)
    until(lambda: not lab.status().waiting)
