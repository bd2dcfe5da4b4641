"""The lab's own process: the tracker, and a keeper for the server of every board.

Started by `toolchain.rpc.lab`. It ends, and everything it started with it, when told to, at
SIGTERM, when its state file is gone, and when nobody needs it any more: a lab that a command
started for itself lasts as long as the commands that use it.
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
from pathlib import Path
from typing import Any

from toolchain.boards.install import Installed
from toolchain.boards.inventory import find_board
from toolchain.errors import ToolchainError
from toolchain.rpc import control, frames, state
from toolchain.rpc.keeper import Keeper
from toolchain.rpc.state import LabState, Life
from toolchain.rpc.tracker import Tracker

log = logging.getLogger(__name__)

READY_S = 60.0  # for a server to start and register; 0.05 s natively, under 1 s in qemu-user
_LOOK_S = 0.3
_UNUSED_S = 10.0  # between the start and the first user


class Supervisor:
    """Owns what runs in the lab.

    Attributes
    ----------
    kept
        It lasts until it is stopped; else while it has users.
    users
        Processes that use the lab or are adding boards to it, by the token each chose.
    """

    def __init__(self, where: Path) -> None:
        self.where = where
        self.tracker = Tracker()
        self.kept = False
        self.users: dict[str, Life] = {}
        self._keepers: dict[str, Keeper] = {}
        self._keys: dict[str, str] = {}
        self._adding = asyncio.Lock()
        self._ending = asyncio.Event()
        self._unused_until = time.monotonic() + _UNUSED_S

    async def run(self, port: int, ready: int) -> None:
        """Start, tell who we are through the file handle `ready`, and last until the end."""
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

    async def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        verb = question.get("do")
        if verb == "add":
            async with self._adding:
                await self._add(question)
        elif verb == "leave":
            self._leave(str(question["token"]))
        elif verb == "stop":
            self._ending.set()
        return {"ending": self._ending.is_set()}

    async def _add(self, question: dict[str, Any]) -> None:
        user = question["user"]
        self.users[user["token"]] = Life(user["pid"], user["created"])
        self._unused_until = 0.0
        new = {board: at for board, at in question["boards"].items() if board not in self._keepers}
        try:
            for name, program in new.items():
                self._start_keeper(name, program, question["options"])
            self._write_state()
            await self._until_registered(list(new))
            self.kept = self.kept or bool(question["keep"])
        except BaseException:
            await self._stop_keepers(list(new))
            self._write_state()
            self._leave(user["token"])
            raise

    def _leave(self, token: str) -> None:
        self.users.pop(token, None)
        if not self.kept and not self.users:
            self._ending.set()

    def _start_keeper(self, name: str, program: str, options: list[str]) -> None:
        board = find_board(name)
        address = f"{frames.HOST}:{self.tracker.port}"
        serve = ("serve", "--tracker", address, "--key", board.tracker_key, *options)
        argv = Installed(program, {}).command(*serve)
        keeper = Keeper(name, board.transport, argv, self.where / "log" / f"{name}.log")
        self._keepers[name] = keeper
        self._keys[name] = board.tracker_key
        self.tracker.registry.expected.add(board.tracker_key)
        keeper.start()

    async def _until_registered(self, names: list[str]) -> None:
        deadline = time.monotonic() + READY_S
        while not self._ending.is_set() and not all(self._is_registered(name) for name in names):
            for name in names:
                failure = self._keepers[name].failure
                if failure is not None:
                    raise failure
            if time.monotonic() > deadline:
                late = [name for name in names if not self._is_registered(name)]
                raise ToolchainError(
                    f"board {late[0]}: its server did not register within {READY_S:g} s",
                    f"see {self.where / 'log' / late[0]}.log",
                )
            await asyncio.sleep(0.01)
        if self._ending.is_set():
            raise ToolchainError("the lab was stopped while a board was added", "start it again")

    def _is_registered(self, name: str) -> bool:
        port = self._keepers[name].port
        return port is not None and self.tracker.registry.is_registered(self._keys[name], port)

    async def _stop_keepers(self, names: list[str]) -> None:
        keepers = [self._keepers.pop(name) for name in names if name in self._keepers]
        await asyncio.gather(*(asyncio.to_thread(keeper.stop) for keeper in keepers))
        for name in names:
            self._keys.pop(name, None)
        self.tracker.registry.expected = set(self._keys.values())

    def _write_state(self) -> None:
        if self._ending.is_set():
            return
        state.write_state(self.where, LabState(Life.own(), self.tracker.port, dict(self._keys)))

    def _is_said(self) -> bool:
        said = state.read_state(self.where)
        return said is not None and said.supervisor.pid == os.getpid()

    def _is_needed(self) -> bool:
        needed = self.kept or bool(self.users) or time.monotonic() < self._unused_until
        return needed and not self._ending.is_set() and self._is_said()


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
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
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
