"""The lab's own process: the tracker, and a keeper for the server of every board.

Started by `toolchain.rpc.lab`. A board that cannot be reached, or goes away, is tried again until it
serves; each keeper is a thread of its own, so that none delays another. The process ends, and
everything it started with it, when told to, at SIGTERM, when its state file is gone, and when nobody
needs it any more: a lab that a command started for itself lasts as long as the commands that use it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import logging
import os
import signal
import sys
import time
from dataclasses import asdict
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError, UsageError
from toolchain.processes.life import Life
from toolchain.rpc import control, state
from toolchain.rpc.keeper import Keeper
from toolchain.rpc.registry import Lease
from toolchain.rpc.state import LabState
from toolchain.rpc.tracker import Tracker

log = logging.getLogger(__name__)

# For a server to start and register: 0.05 s natively, under 1 s in qemu-user, a minute where edge-rt
# must be sent over a slow link first. A board that cannot be reached says so much sooner.
READY_S = 120.0
_LOOK_S = 0.3
_LOG_BYTES = 4 << 20  # then a second file is begun; there are no more than two
_MOST_WAITING = 200  # requests that a status lists: its answer is one line
_UNUSED_S = 10.0  # between the start and the first user


class Supervisor:
    """Owns the tracker and the keepers of the lab.

    Attributes
    ----------
    kept
        Whether the lab lasts until it is stopped; else it lasts while it has users.
    users
        Processes that use the lab or are adding boards to it, by the token each chose.
    """

    def __init__(self, where: Path) -> None:
        self.where = where
        self.tracker = Tracker()
        self.kept = False
        self.users: dict[str, Life] = {}
        self._keepers: dict[str, Keeper] = {}
        self._taking_back: set[asyncio.Task[list[str]]] = set()
        self._ending = asyncio.Event()
        self._unused_until = time.monotonic() + _UNUSED_S

    async def run(self, port: int, ready: int) -> None:
        """Start, report through the file handle `ready`, and run until the lab ends."""
        await self.tracker.start(port)
        server = await control.listen(self.where, self._answer)
        try:
            self._write_state()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._ending.set)
            _tell(ready, {"supervisor": asdict(Life.own())})
            while self._is_needed():
                self.users = {token: life for token, life in self.users.items() if life.lasts()}
                self._take_back_overdue()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._ending.wait()
        finally:
            log.info("ends")
            server.close()
            await self._stop_keepers(list(self._keepers))
            await self.tracker.close()
            if self._is_said():
                state.state_file(self.where).unlink(missing_ok=True)
                control.forget(self.where)

    def _take_back_overdue(self) -> None:
        late = self.tracker.registry.overdue()
        if late:  # a board that does not answer must not delay anybody
            task = asyncio.create_task(self._take_back(late, "outlived its time"))
            self._taking_back.add(task)
            task.add_done_callback(self._taking_back.discard)

    async def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        verb = question.get("do")
        if verb == "add":
            await self._add(question)
        elif verb == "leave":
            self._leave(str(question["token"]))
        elif verb == "release":
            return {"released": await self._release(str(question["key"]))}
        elif verb == "status":
            return self._status()
        elif verb == "stop":
            self._ending.set()
        return {"ending": self._ending.is_set()}

    async def _add(self, question: dict[str, Any]) -> None:
        user, names = question["user"], list(question["boards"])
        self.users[user["token"]] = Life(user["pid"], user["began"])
        self._unused_until = 0.0
        new: list[str] = []
        try:
            boards = _boards_as_seen_from(question["folder"], names, self.where)
            for board in boards:
                keeper = self._keepers.get(board.name)
                if keeper and _whereabouts(keeper.board) != _whereabouts(board):
                    if self._serves(board.name):
                        raise ToolchainError(
                            f"the lab has another board of the name {board.name}: its entry was changed, "
                            "or is another project's",
                            "`toolchain lab stop`, then type it again",
                        )
                    await self._stop_keepers([board.name])
                    keeper = None
                if keeper:
                    keeper.retry()
                else:
                    await self._start_keeper(board, question["options"])
                    new.append(board.name)
            self._write_state()
            await self._wait_until_settled(names)
            self.kept = self.kept or bool(question["keep"])
        except BaseException:
            await self._stop_keepers(new)
            self._write_state()
            self._leave(user["token"])
            raise

    def _leave(self, token: str) -> None:
        self.users.pop(token, None)
        if not self.kept and not self.users:
            self._ending.set()

    async def _start_keeper(self, board: Board, options: list[str]) -> None:
        door = await self.tracker.open_door(f"{board.tracker_key}@{board.name}")
        forget = partial(self.tracker.end_server, door)
        keeper = Keeper(board, door, forget, options, self.where / "log")
        self._keepers[board.name] = keeper
        self.tracker.registry.expected.add(board.tracker_key)
        keeper.start()

    async def _wait_until_settled(self, names: list[str]) -> None:
        """Wait until each of these boards serves or is known to be away; some must serve."""
        deadline = time.monotonic() + READY_S
        while not self._ending.is_set():
            if gone := [name for name in names if name not in self._keepers]:
                raise ToolchainError(
                    f"board {gone[0]}: another command, which added it at the same time, gave up",
                    "try again",
                )
            serving = [name for name in names if self._serves(name)]
            failures = [self._keepers[name].failure for name in names if name not in serving]
            away = [failure for failure in failures if failure is not None]
            if len(serving) + len(away) == len(names):
                if away and not serving:
                    raise away[0]
                return
            if time.monotonic() > deadline:
                if serving:
                    return
                raise (
                    away[0]
                    if away
                    else ToolchainError(
                        f"board {names[0]}: its server did not register within {READY_S:g} s",
                        f"see {self.where / 'log' / names[0]}.log",
                    )
                )
            await asyncio.sleep(0.01)
        raise ToolchainError("the lab was stopped while a board was added", "start it again")

    def _serves(self, name: str) -> bool:
        keeper = self._keepers.get(name)
        return (
            keeper is not None
            and keeper.state == "serving"
            and self.tracker.registry.is_registered(keeper.board.tracker_key, name)
        )

    def _status(self) -> dict[str, Any]:
        boards = {}
        for name, keeper in self._keepers.items():
            failure = keeper.failure
            state = keeper.state if failure else "serving" if self._serves(name) else "starting"
            boards[name] = {
                "key": keeper.board.tracker_key,
                "state": state,
                "reason": failure.message if failure else None,
                "silent": keeper.silent(),
                "waits": keeper.waits(),
            }
        now = time.monotonic()
        leases = [
            {
                "key": lease.key,
                "board": lease.board or None,
                "user": lease.user or None,
                "held_s": round(now - lease.since, 1),
                "left_s": round(lease.until - now, 1),
            }
            for lease in self.tracker.registry.leases()
        ]
        waiting = [
            {
                "key": request.key,
                "board": request.board or None,
                "user": request.user or None,
                "waited_s": round(now - request.since, 1),
            }
            for request in self.tracker.registry.waiting()[:_MOST_WAITING]
        ]
        return {"boards": boards, "leases": leases, "waiting": waiting}

    async def _release(self, key: str) -> list[str]:
        registry = self.tracker.registry
        if key not in registry.known_keys():
            known = ", ".join(sorted(registry.known_keys())) or "none"
            raise UsageError(f"no board has the key {key!r} in the lab; its keys are: {known}")
        return await self._take_back(
            [lease for lease in registry.leases() if lease.key == key], "was released"
        )

    async def _take_back(self, leases: list[Lease], why: str) -> list[str]:
        """End the leased servers and their sessions; return their boards."""
        ours = {lease.board: lease for lease in leases if lease.board in self._keepers}
        for name, lease in ours.items():
            log.warning("board %s: its lease to %s %s", name, lease.user or "somebody", why)
        ends = (
            asyncio.to_thread(
                self._keepers[name].end_server, ToolchainError(f"board {name}: its lease {why}")
            )
            for name in ours
        )
        await asyncio.gather(*ends)
        return sorted(ours)

    async def _stop_keepers(self, names: list[str]) -> None:
        keepers = [self._keepers.pop(name) for name in names if name in self._keepers]
        await asyncio.gather(*(asyncio.to_thread(keeper.stop) for keeper in keepers))
        for keeper in keepers:
            self.tracker.close_door(keeper.door)
        self.tracker.registry.expected = {keeper.board.tracker_key for keeper in self._keepers.values()}

    def _write_state(self) -> None:
        if self._ending.is_set():
            return
        keys = {name: keeper.board.tracker_key for name, keeper in self._keepers.items()}
        state.write_state(self.where, LabState(Life.own(), self.tracker.port, keys))

    def _is_said(self) -> bool:
        said = state.read_state(self.where)
        return said is not None and said.supervisor.pid == os.getpid()

    def _is_needed(self) -> bool:
        needed = self.kept or bool(self.users) or time.monotonic() < self._unused_until
        return needed and not self._ending.is_set() and self._is_said()


def _whereabouts(board: Board) -> tuple[object, ...]:
    """Return what says which machine, and which device of it, a board is."""
    transport = board.transport
    address, root = (getattr(transport, name, None) for name in ("address", "root"))  # of boards behind SSH
    return transport.kind, address, root, board.tracker_key, board.only_device


def _boards_as_seen_from(folder: str, names: list[str], home: Path) -> list[Board]:
    """Look boards up in the configuration of the requesting process, which may differ from ours."""
    try:
        os.chdir(folder)
        configuration.cache_clear()
        return [find_board(name) for name in names]
    except OSError as error:
        raise UsageError(f"the folder {folder} cannot be entered: {error.strerror}") from error
    finally:
        os.chdir(home)  # nobody's folder is kept from being removed


def _tell(ready: int, document: dict[str, Any]) -> None:
    os.write(ready, json.dumps(document).encode() + b"\n")
    os.close(ready)


def _detach() -> None:
    # The caller waits for its child, so that no zombie of ours stays with a caller that lives long.
    if os.fork():
        os._exit(0)
    os.setsid()


def main() -> None:
    """Supervise the lab in a folder, unless another process does."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ready", type=int, required=True, help="file handle that takes a line of JSON")
    options = parser.parse_args()
    _detach()
    file = options.folder / "log" / "supervisor.log"
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(name)s: %(message)s",
        handlers=[RotatingFileHandler(file, maxBytes=_LOG_BYTES, backupCount=1)],
    )
    with (options.folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _tell(options.ready, {"held": True})
            return
        try:
            asyncio.run(Supervisor(options.folder).run(options.port, options.ready))
        except ToolchainError as error:
            with contextlib.suppress(OSError):  # it may have been told before
                _tell(options.ready, control.error_document(error))
            sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
