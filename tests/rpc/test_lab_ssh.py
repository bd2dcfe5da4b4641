"""The lab with boards behind a real sshd, which has this host's files: each board is a folder."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tvm
from click.testing import CliRunner
from tvm import relax
from tvm.rpc import RPCSession

from tests.boards.ssh.sshd import Sshd, free_port, make_key, sshd
from tests.rpc.peers import listening
from tests.runtime import networks
from tests.waiting import PATIENCE_S, until
from toolchain.boards.edge_rt.install import user_at_host
from toolchain.boards.edge_rt.status import statuses
from toolchain.boards.inventory.lookup import find_boards, local_board
from toolchain.cli.commands.board_status import status as board_status
from toolchain.cli.commands.lab import lab as lab_command
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError
from toolchain.rpc import lab
from toolchain.rpc import state as lab_state
from toolchain.rpc.frames import HOST
from toolchain.rpc.session import open_session
from toolchain.runtime import expected_fingerprint

pytestmark = pytest.mark.slow
FREE = {"total": 1, "free": 1, "pending": 0}


@dataclass
class Site:
    """A server, the boards behind it by name, and whom they belong to."""

    server: Sshd
    folder: Path
    state: Path

    def add(self, name: str, **changed: object) -> Path:
        """Enter a board into toolchain.toml; return its folder."""
        root = self.folder / "boards" / name
        root.mkdir(parents=True)
        entry = {
            "class": "x86_64",
            "host": HOST,
            "port": self.server.port,
            "host_key": self.server.host_key,
            "identity": str(self.server.identity),
            "root": str(root),
            **changed,
        }
        lines = [f"[boards.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
        with (self.folder / "toolchain.toml").open("a") as file:
            file.write("\n".join(lines) + "\n")
        configuration.cache_clear()
        return root

    def servers(self) -> list[psutil.Process]:
        """Return the processes that run in the boards' folders."""
        return [p for p in psutil.process_iter() if str(self.folder / "boards") in _cwd(p)]

    def programs(self) -> list[psutil.Process]:
        """Return those of them that are edge-rt."""
        return [p for p in self.servers() if "serve" in _words(p, "edge-rt")]

    def clients(self) -> list[psutil.Process]:
        """Return the OpenSSH clients that lead to the server."""
        return [p for p in psutil.process_iter() if str(self.server.identity) in _words(p, "ssh")]


def _cwd(process: psutil.Process) -> str:
    try:
        return process.cwd() if process.status() != psutil.STATUS_ZOMBIE else ""
    except psutil.Error:
        return ""


def _words(process: psutil.Process, name: str) -> list[str]:
    try:
        return process.cmdline() if process.name().startswith(name) else []
    except psutil.Error:
        return []


@pytest.fixture
def site(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.chdir(tmp_path)
    with sshd(tmp_path / "sshd") as server:
        site = Site(server, tmp_path, state)
        yield site
        running = lab_state.read_state(lab_state.folder())
        lab.stop()
        assert running is None or running.supervisor.ends_within(60)
        assert site.clients() == []
        until(lambda: site.servers() == [])


def states() -> dict[str, str]:
    return {name: board.state for name, board in lab.status().boards.items()}


def all_serve() -> bool:
    return set(states().values()) == {"serving"}


def test_start_use_stop(site: Site) -> None:
    for name in ("one", "two"):
        site.add(name)
    started = lab.start(find_boards("x86_64"))
    assert started.keys == {"x86_64": {"total": 2, "free": 2, "pending": 0}}
    assert {board.state for board in started.boards.values()} == {"serving"}

    boards = [process.pid for process in [*site.servers(), *site.server.sessions()]]
    ours = [started.pid, *(process.pid for process in site.clients())]
    assert len(site.clients()) == 2
    assert listening({*boards, *ours} - {site.server.process.pid}) == {"0100007F"}  # 127.0.0.1

    opened = open_session(HOST, started.port, "x86_64@two", 30, 10)
    assert opened.get_function("edge.fingerprint")() == expected_fingerprint()
    (lease,) = lab.status().leases
    assert (lease["board"], lease["user"]) == ("two", f"process {os.getpid()}")
    assert 30 < lease["left_s"] <= 60
    del opened
    until(lambda: lab.status().keys["x86_64"]["free"] == 2)

    assert lab.stop() is True
    assert site.clients() == []
    assert site.servers() == []
    until(lambda: site.server.sessions() == [])


def test_two_hosts_see_who_waits_for_one_board(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each state folder is a host with a lab of its own; the board behind both is one."""
    root = site.add("one")
    hosts = [site.state, site.folder / "state of another host"]

    def at(host: Path) -> None:
        monkeypatch.setenv("TOOLCHAIN_STATE_DIR", str(host))
        configuration.cache_clear()

    def waits(host: Path) -> dict[str, Any] | None:
        at(host)
        return lab.status().boards["one"].waits

    def waits_no_more(host: Path) -> bool:
        return waits(host) is None

    sessions = []
    try:
        for host in hosts:
            at(host)
            started = lab.start(find_boards("one"))
            opened = open_session(HOST, started.port, "x86_64@one", 120, 10)
            sessions.append(_Session(opened))
        with ThreadPoolExecutor(2) as pool, (root / "state" / "measure.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(f'{{"pid": {os.getpid()}, "what": "bench for carl@lap"}}\n')
            lock.flush()
            measured = []
            for ahead, (host, session) in enumerate(zip(hosts, sessions, strict=True)):
                measured.append(pool.submit(session.measure))
                until(partial(waits, host), what="that the lab says so")
                found = waits(host)
                assert found is not None and found["waited_s"] >= 1
                assert found["holder"] == {"pid": os.getpid(), "what": "bench for carl@lap"}
                assert found["ahead"] == ahead
            (there,) = statuses(find_boards("one"))
            assert there.holder == {"pid": os.getpid(), "what": "bench for carl@lap"}
            assert [each["what"] for each in there.waiting] == [f"rpc session for {user_at_host()}"] * 2
            listed = CliRunner().invoke(board_status, ["one"]).output
            assert f"measures: bench for carl@lap (process {os.getpid()} there)" in listed
            assert listed.count(f" s: rpc session for {user_at_host()} (process ") == 2
            shown = CliRunner().invoke(lab_command, ["status"]).output
            assert "one: its session has waited for the board for " in shown
            assert f"bench for carl@lap (process {os.getpid()} there) measures, 1 more is ahead" in shown
            lock.truncate(0)
            fcntl.flock(lock, fcntl.LOCK_UN)
            for each in measured:
                each.result(PATIENCE_S)
        for host in hosts:
            until(partial(waits_no_more, host))
        (there,) = statuses(find_boards("one"))
        assert (there.holder, there.waiting) == (None, [])
    finally:
        sessions.clear()
        at(hosts[1])
        lab.stop()
        at(hosts[0])


class _Session:
    """A session that measures a network."""

    def __init__(self, session: RPCSession) -> None:
        self._session = session
        session.upload(bytearray(networks.library("dense", "x86_64")), "dense.so")
        machine = relax.VirtualMachine(session.load_module("dense.so"), session.cpu())
        inputs = (np.zeros((4, 8), "float32"), np.zeros(16, "float32"))
        machine.set_input("main", *(tvm.runtime.tensor(each, session.cpu()) for each in inputs))
        self._timer = machine.time_evaluator("invoke_stateful", session.cpu(), number=1)

    def measure(self) -> None:
        self._timer("main")


def test_a_killed_lab_leaves_nothing_on_host_or_board(site: Site) -> None:
    site.add("one")
    os.kill(lab.start(find_boards("one")).pid, signal.SIGKILL)
    until(lambda: site.clients() == [] and site.servers() == [] and site.server.sessions() == [])


def test_a_tunnel_that_is_cut_comes_back(site: Site) -> None:
    site.add("one")
    started = lab.start([local_board(), *find_boards("one")])
    (client,) = site.clients()
    (server,) = site.programs()
    client.kill()
    until(lambda: site.clients() not in ([], [client]) and site.programs() not in ([], [server]))
    until(all_serve)
    assert lab.status().pid == started.pid


def test_a_board_that_is_silent_is_away_and_taken_in_again(site: Site) -> None:
    site.add("one")
    started = lab.start([local_board(), *find_boards("one")])
    frozen = [psutil.Process(site.server.process.pid), *site.server.sessions(), *site.servers()]
    for process in frozen:
        process.suspend()
    try:
        until(lambda: states()["one"] == "away")
        for _ in range(5):  # all the while nobody else notices
            asked = time.monotonic()
            found = lab.status()
            assert time.monotonic() - asked < 30
            assert found.keys == {"local": FREE, "x86_64": {"total": 0, "free": 0, "pending": 0}}
            assert "one" in found.boards["one"].reason
            open_session(HOST, started.port, "local", 30, 60)
            until(lambda: lab.status().keys["local"]["free"] == 1)
            time.sleep(0.2)
    finally:
        for process in frozen:
            process.resume()
    until(all_serve)
    assert lab.status().keys["x86_64"] == FREE


def test_a_board_that_is_away_delays_nobody_and_says_why(site: Site) -> None:
    site.add("one")
    site.add("gone", port=free_port())
    site.add("other", host_key=make_key(site.folder / "another"))
    begun = time.monotonic()
    started = lab.start(find_boards("x86_64"))
    assert time.monotonic() - begun < 50
    assert started.boards["one"].state == "serving"
    assert "cannot reach" in started.boards["gone"].reason
    assert "host key" in started.boards["other"].reason
    assert started.keys == {"x86_64": FREE}
    with pytest.raises(ToolchainError, match="host key"), lab.join(find_boards("other")):
        pass
    assert states()["one"] == "serving"


def test_a_lab_of_boards_that_are_all_away_is_none(site: Site) -> None:
    site.add("gone", port=free_port())
    with pytest.raises(ToolchainError, match="board gone: cannot reach"):
        lab.start(find_boards("gone"))
    assert lab.status() is None


def test_a_released_board_is_free_again(site: Site) -> None:
    site.add("one")
    started = lab.start(find_boards("one"))
    opened = open_session(HOST, started.port, "x86_64", 600, 10)
    assert lab.release("x86_64") == ["one"]
    with pytest.raises(Exception, match=r"\S"):
        opened.get_function("edge.info")()
    until(lambda: lab.status().keys["x86_64"] == FREE)
    assert lab.release("x86_64") == []
    with pytest.raises(
        ToolchainError, match="no board has the key 'rk3399' in the lab; its keys are: x86_64"
    ):
        lab.release("rk3399")
