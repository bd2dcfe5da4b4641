"""Starts, joins, inspects and stops the lab: a tracker, and an RPC server on each board in use."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from toolchain.boards.board import Board
from toolchain.configuration.settings import cache_dir, state_dir
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.atomic import cannot_write, make_private_folder
from toolchain.processes.life import Life
from toolchain.rpc import control, frames, state
from toolchain.rpc.client import TrackerClient
from toolchain.rpc.supervisor import READY_S
from toolchain.runtime import arch_of, ensure_runtime

# Set for a command that runs in a container: the port of a lab that the process outside joined for it.
PORT_VARIABLE = "EDGE_TOOLCHAIN_LAB_PORT"
_START_S = 120.0  # less than a second; under qemu-user on a busy machine 30 s were not enough
_STOP_S = 20.0  # its servers have a few seconds each to end, all at once
_KILL_S = 5.0


@dataclass(frozen=True)
class Lab:
    """A running lab with the address of its tracker."""

    host: str
    port: int


@dataclass(frozen=True)
class BoardStatus:
    """The state of a board in the lab.

    Attributes
    ----------
    state
        `starting`, `serving`, `away` with a reason, or `aside` with one: its server violated the protocol and
        is not started again before `start`.
    waits
        What the session on the board waits for while somebody else measures there: `holder` of the board's
        lock (its process there and what it does; None: nobody in that moment), how many others are `ahead`,
        and `waited_s`. None if it does not wait.
    """

    key: str
    state: str
    reason: str | None
    waits: dict[str, Any] | None = None


@dataclass(frozen=True)
class LabStatus:
    """The state of the lab, as `lab status` prints it.

    Attributes
    ----------
    keys
        Numbers of servers, free servers and pending requests per key, also for boards that are away.
    leases
        The leases: key, board, user, seconds held and seconds left.
    waiting
        The pending requests: key, board (None: any), user and seconds waited; those of a key in the order in
        which they are served.
    """

    host: str
    port: int
    pid: int
    boards: dict[str, BoardStatus]
    keys: dict[str, dict[str, int]]
    leases: tuple[dict[str, Any], ...]
    waiting: tuple[dict[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document of `--json`."""
        return {
            "tracker": f"{self.host}:{self.port}",
            "keys": self.keys,
            "boards": list(self.boards),
            "states": {name: asdict(status) for name, status in self.boards.items()},
            "leases": list(self.leases),
            "waiting": list(self.waiting),
            "pid": self.pid,
        }


def start(boards: Sequence[Board], port: int = 0, progress: Callable[[str], None] | None = None) -> LabStatus:
    """Start the lab, or add boards to the running lab, which lasts until `stop`.

    Returns when every board serves or is known to be away; boards that are away join when they come back.

    Parameters
    ----------
    port
        Port of the tracker; 0 for any free one. A running lab keeps its own.
    progress
        Called with a line of text from time to time while edge-rt is compiled.

    Raises
    ------
    ToolchainError
        The port is taken, or none of the boards serves (the first error is raised). Everything that this call
        started has been stopped.
    """
    with _add(boards, keep=True, port=port, progress=progress):
        found = status()
    if found is None:
        raise ToolchainError("the lab has ended again", f"see {state.folder() / 'log'}")
    return found


def status() -> LabStatus | None:
    """Return the state of the running lab, None if no lab runs."""
    running = state.read_state(state.folder())
    if running is None:
        return None
    try:
        with TrackerClient(frames.HOST, running.port) as tracker:
            keys = tracker.summary()
        said = control.ask(state.folder(), {"do": "status"}, wait_s=_KILL_S)
    except ToolchainError:
        if running.supervisor.ends_within(_KILL_S):  # its last user had just left
            return None
        raise
    boards = {
        name: BoardStatus(
            board["key"], board["state"], board["reason"] or board["silent"], board.get("waits")
        )
        for name, board in said["boards"].items()
    }
    leases = tuple(said["leases"])
    waiting = tuple(said.get("waiting", ()))  # a lab that was started by an older version says nothing of it
    return LabStatus(frames.HOST, running.port, running.supervisor.pid, boards, keys, leases, waiting)


def release(key: str) -> list[str]:
    """Revoke the leases under a key; return the boards whose sessions were ended.

    Raises
    ------
    UsageError
        No lab runs, or it has no such key; the message lists the keys.
    """
    if state.read_state(state.folder()) is None:
        raise UsageError(f"{key}: no lab runs, so nothing is held", "`toolchain lab start` starts one")
    released = control.ask(state.folder(), {"do": "release", "key": key}, wait_s=_STOP_S)["released"]
    return [str(board) for board in released]


def stop() -> bool:
    """Stop the lab and everything in it; return whether one was running."""
    where = state.folder()
    running = state.read_state(where)
    if running is not None:
        with suppress(ToolchainError):
            control.ask(where, {"do": "stop"}, wait_s=_KILL_S)
        _end(running.supervisor)
    # What a killed lab left behind; one that ended by itself has removed it, and if it cannot be
    # removed, it misleads nobody: its process is gone.
    if state.read_state(where) is None:
        with suppress(OSError):
            state.state_file(where).unlink(missing_ok=True)
            control.forget(where)
    return running is not None


@contextmanager
def join(
    boards: Sequence[Board],
    threads: int | None = None,
    cluster: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Iterator[Lab]:
    """Join the running lab, or start one that ends with its last user.

    A lab that was started with `start` lasts until `stop`.

    Parameters
    ----------
    threads, cluster
        For servers that this call starts; sessions may choose others (`open_session`).
    progress
        Called with a line of text from time to time while edge-rt is compiled.
    """
    if port := os.environ.get(PORT_VARIABLE):
        yield Lab(frames.HOST, int(port))
        return
    options = [] if threads is None else ["--threads", str(threads)]
    options += [] if cluster is None else ["--cluster", cluster]
    with _add(boards, keep=False, options=options, progress=progress) as lab:
        yield lab


@contextmanager
def _add(
    boards: Sequence[Board],
    *,
    keep: bool,
    port: int = 0,
    options: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
) -> Iterator[Lab]:
    where = state.folder()
    for arch in {arch_of(board.profile) for board in boards}:
        # May compile for minutes; the rest is done board by board at once.
        ensure_runtime(arch, progress=progress)
    token = uuid.uuid4().hex
    user = {"token": token, **asdict(Life.own())}
    question = {
        "do": "add",
        "boards": [board.name for board in boards],
        "folder": str(Path.cwd()),
        "user": user,
        "keep": keep,
        "options": list(options),
    }
    supervisor: Life | None = None
    try:
        supervisor = _ensure_supervisor(where, port)
        control.ask(where, question, wait_s=READY_S + _STOP_S)
        running = state.read_state(where)
        if running is None:
            raise ToolchainError("the lab has ended again", f"see {where / 'log'}")
        yield Lab(frames.HOST, running.port)
    finally:
        if supervisor is not None:
            _leave(where, supervisor, token)  # also when we failed or were interrupted


def _leave(where: Path, supervisor: Life, token: str) -> None:
    """Let a lab end that nobody keeps or uses any more, and wait for that."""
    if not supervisor.lasts():
        return
    try:
        ending = control.ask(where, {"do": "leave", "token": token}, wait_s=_KILL_S)["ending"]
    except ToolchainError:  # it ends already; or it hangs, and `lab stop` will end it
        supervisor.ends_within(_KILL_S)
        return
    if ending:
        _end(supervisor)


def _end(supervisor: Life) -> None:
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            supervisor.signal(number)
        if supervisor.ends_within(_STOP_S if number is None else _KILL_S):
            return
    raise ToolchainError(
        f"the lab's process {supervisor.pid} does not end", f"look at it with `ps {supervisor.pid}`"
    )


def _ensure_supervisor(where: Path, port: int) -> Life:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        running = state.read_state(where)
        if running is not None:
            if port not in (0, running.port):
                raise ToolchainError(
                    f"port {port}: the lab already runs, its tracker is at port {running.port}",
                    "leave the port out, or type `toolchain lab stop` first",
                )
            return running.supervisor
        told = _spawn(where, port)
        if "held" not in told:
            return Life(**control.raise_for(told)["supervisor"])
        time.sleep(0.1)  # another process starts or ends one right now
    raise ToolchainError(
        f"another lab in {where} neither starts nor ends", f"see {where / 'log' / 'supervisor.log'}"
    )


def _spawn(where: Path, port: int) -> dict[str, Any]:
    log = where / "log" / "supervisor.log"
    try:
        for private in (where.parent, where, log.parent):
            make_private_folder(private)
        with log.open("ab") as output:
            return _spawn_logged(where, port, output.fileno())
    except OSError as error:
        raise cannot_write(where, error) from error


def _spawn_logged(where: Path, port: int, log: int) -> dict[str, Any]:
    reading, writing = os.pipe()
    program = [sys.executable, "-P", "-m", "toolchain.rpc.supervisor"]
    arguments = ["--folder", str(where), "--port", str(port), "--ready", str(writing)]
    # It must see the folders that this process sees, wherever their names came from.
    folders = {
        "TOOLCHAIN_STATE_DIR": str(state_dir().absolute()),
        "TOOLCHAIN_CACHE_DIR": str(cache_dir().absolute()),
    }
    try:
        child = subprocess.Popen(
            [*program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[writing],
            env=os.environ | folders,
        )
        os.close(writing)
        writing = -1
        child.wait(_START_S)  # it has detached itself from us
        line = b""
        if select.select([reading], [], [], _START_S)[0]:
            line = os.read(reading, 65536)
        return dict(json.loads(line))
    except (ValueError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(
            "the lab's supervisor did not start", f"see {where / 'log' / 'supervisor.log'}"
        ) from error
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
