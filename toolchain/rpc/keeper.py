"""Keeps one server running on one board: restarts it when it dies or its board comes back."""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import ServerSaid, Wait
from toolchain.boards.edge_rt.install import Installed, install
from toolchain.boards.transport import DeadlineError, Process
from toolchain.configuration.settings import settings
from toolchain.errors import ToolchainError
from toolchain.foreign import last_line, shortened
from toolchain.rpc.door import Door
from toolchain.rpc.frames import HOST
from toolchain.rpc.tunnel import PortTakenError, Tunnel, free_port

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0  # limit of the back-off, and so of the delay in noticing a board
_HEALTHY_S = 30.0  # a server that ran this long may be started again at once
_END_S = 1.0  # between the end of a server's output and its own
_STOP_S = 12.0  # for an orderly end; what hangs then ends with this process
_MAX_LINE = 64 * 1024
_PORTS = 5  # attempts, each with another port
_MOST_LINES = 100  # a server says two, and an error
# Of a session that waits for the board's lock it says one line a second at most; after a pause of the
# connection all at once.
_MOST_WAITS = 500
_WAITS_PER_S = 3.0
_CONNECT_S = 5.0

State = Literal["starting", "serving", "away", "aside"]


class Keeper(threading.Thread):
    """Keeps `edge-rt serve` running on a board, and the way there open, until `stop`.

    Parameters
    ----------
    door
        Port at which the server registers with the tracker.
    forget
        Makes the tracker forget the server immediately.
    options
        More options of the server.
    folder
        Folder on this host for the output of server and tunnel: `NAME.log`.

    Attributes
    ----------
    serving
        Whether the server runs and has reached the tracker.
    failure
        Why the board is away or was put aside; None if it is neither, or before the first attempt has ended.
    """

    def __init__(
        self,
        board: Board,
        door: Door,
        forget: Callable[[], object],
        options: Sequence[str],
        folder: Path,
    ) -> None:
        super().__init__(name=f"server on {board.name}", daemon=True)
        self.board = board
        self.serving = False
        self.failure: ToolchainError | None = None
        self._lie: ToolchainError | None = None
        self.log = folder / f"{board.name}.log"
        self.door = door
        self._forget = forget
        self._options = list(options)
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._tunnel: Tunnel | None = None
        self._cause: ToolchainError | None = None  # why we ended the server ourselves
        self._wait: tuple[Wait, float] | None = None  # of the server's session, and when it was said
        self._closed = threading.Event()  # whoever took the process from this thread has ended it
        self._stopping = threading.Event()
        self._hurry = threading.Event()
        self._retried = False  # while the last server or attempt still ends
        door.lied = self._put_aside

    @property
    def aside(self) -> bool:
        """Whether its server violated the protocol, so that it is not started again until `retry`."""
        return self._lie is not None

    @property
    def state(self) -> State:
        """State of the board."""
        if self.aside:
            return "aside"
        if self.failure is not None:
            return "away"
        return "serving" if self.serving else "starting"

    def silent(self) -> str | None:
        """Return a sentence if the tunnel's process is stopped, None if it runs."""
        tunnel = self._tunnel
        return None if tunnel is None else tunnel.silent()

    def waits(self) -> dict[str, Any] | None:
        """Return what the server's session waits for; None if it does not, or only for a moment.

        The keys are `holder` (of the board's lock), `ahead` (how many are to have it before) and `waited_s`.
        """
        said = self._wait
        if said is None:
            return None
        wait, when = said
        return {**wait.model_dump(), "waited_s": round(wait.waited_s + time.monotonic() - when, 1)}

    def run(self) -> None:
        """Start the server again and again, with growing pauses."""
        pause = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            begun = time.monotonic()
            self._cause = None
            self._retried = False
            try:
                failure = self._attempt()
            except ToolchainError as error:
                failure = error
            except Exception as error:  # a keeper that dies would leave its board away for good
                log.exception("board %s", self.board.name)
                failure = ToolchainError(f"board {self.board.name}: {error!r}", f"see {self.log}")
            self.serving = False
            if self._stopping.is_set():
                return
            failure = self._lie or failure
            if not self._retried:  # who retried waits for the next attempt, not for the end of this one
                self.failure = failure
            again = "not started again" if self.aside else f"again in {pause:g} s"
            log.warning("%s; %s", failure, again)
            self._disconnect()
            self._hurry.wait(None if self.aside else pause)
            self._hurry.clear()
            healthy = time.monotonic() - begun > _HEALTHY_S
            pause = _FIRST_PAUSE_S if healthy else min(2 * pause, _LONGEST_PAUSE_S)

    def retry(self) -> None:
        """Retry now if the board is away or was put aside."""
        if self.failure is not None:
            self._retried = True
            self.failure = self._lie = None
            self._hurry.set()

    def end_server(self, cause: ToolchainError) -> None:
        """End the server and its session; it is started again."""
        if not self.aside:
            self._hurry.set()
        self._end(cause)

    def stop(self) -> None:
        """End the server and the tunnel, and wait until they and this thread have ended."""
        self._stopping.set()
        self._hurry.set()
        if not self._end(ToolchainError(f"board {self.board.name}: the lab ends")):
            self._disconnect()  # it may be waiting for a board that does not answer
        if self.is_alive():
            self.join(_STOP_S)
        self._disconnect()

    def _put_aside(self, lie: str) -> None:
        name = self.board.name
        self._lie = ToolchainError(
            f"board {name}: its server {lie}: it was put aside",
            "look at the board: what runs there is not what was installed; then "
            f"`toolchain lab start {name}`",
        )
        self._forget()
        ending = threading.Thread(
            target=self._end, args=(self._lie,), name=f"end of {self.name}", daemon=True
        )
        ending.start()  # who heard the lie has a client to tell

    def _lost(self, cause: ToolchainError) -> None:
        """End the server without waiting for the board: nobody can use it, and the board may be dead."""
        self._end(cause, orderly=False)

    def _end(self, cause: ToolchainError, *, orderly: bool = True) -> bool:
        """End the server from another thread; return whether it ran."""
        with self._lock:
            process, self._process = self._process, None
            self._cause = cause
            self._closed.clear()
        if process is None:
            return False
        self.serving, self.failure = False, cause
        try:
            if not orderly:
                self._disconnect()
            process.close()
        finally:
            self._closed.set()
        return True

    def _disconnect(self) -> None:
        self.board.transport.close()

    def _attempt(self) -> ToolchainError:
        program = install(self.board)
        for left in reversed(range(_PORTS)):
            try:
                if self.board.transport.is_remote:
                    return self._serve_through_tunnel(program)
                port = free_port()
                self.door.connect = partial(socket.create_connection, (HOST, port), _CONNECT_S)
                return self._serve(program, self.door.port, port)
            except PortTakenError:
                if not left or self._stopping.is_set():
                    raise
        raise AssertionError

    def _serve_through_tunnel(self, program: Installed) -> ToolchainError:
        tunnel = Tunnel(self.board, self.door.port, self.log)
        tunnel.open(self._lost)
        try:
            self._tunnel = tunnel
            self.door.connect = tunnel.connect
            return self._serve(program, tunnel.tracker_port, tunnel.board_port)
        finally:
            self._tunnel = None
            tunnel.close()

    def _serve(self, program: Installed, tracker_port: int, port: int) -> ToolchainError:
        where = ("--tracker", f"{HOST}:{tracker_port}", "--port", str(port))
        peers = ["--any-peer"] if settings().unchecked_peers else []
        argv = program.command("serve", *where, "--key", self.door.key, *peers, *self._options)
        self.door.secret = None
        process = self.board.transport.spawn(argv, self.log)
        with self._lock:
            cause = self._cause
            if cause is None:
                self._process = process
        if cause is not None:  # while it started
            process.close()
            return cause
        said, talk = "", _Talk()
        try:
            while line := process.stdout.readline(_MAX_LINE):
                said = line.decode(errors="replace").strip() or said
                document = _document(said)
                if talk.is_too_much(document):
                    most = _MOST_WAITS if document.is_of_waiting else _MOST_LINES
                    self._put_aside(f"said more than {most} lines")
                    break
                self._hear(document, said)
        except (ValueError, OSError):  # closed, or lost
            pass
        finally:
            self._wait = None
        with self._lock:
            mine, self._process = self._process is process, None
        if not mine:
            self._closed.wait(_STOP_S)
            return self._cause or ToolchainError(f"board {self.board.name}: the server was ended")
        code = None
        try:
            with suppress(DeadlineError):
                code = process.wait(_END_S)
        except ToolchainError as error:  # the connection was lost
            return error
        finally:
            process.close()
        return self._ended(said, code)

    def _hear(self, said: ServerSaid, line: str) -> None:
        if said.secret is not None:
            self.door.secret = said.secret
            return
        if said.is_of_waiting:
            self._wait = (said.waiting, time.monotonic()) if said.waiting else None
            return
        log.info("%s: %s", self.board.name, shortened(line))
        if said.port and not self.aside:
            self.serving, self.failure = True, None

    def _ended(self, said: str, code: int | None) -> ToolchainError:
        error = _document(said).error
        if error is not None:
            reason = error.message
        elif code is not None and code < 0:
            reason = f"by signal {-code} ({signal.strsignal(-code)})"
        else:
            reason = last_line(self.log.read_bytes() if self.log.exists() else b"")
        message = f"board {self.board.name}: the server has ended: {reason}"
        hint = f"see {self.log}; `toolchain board show {self.board.name}`"
        if "cannot listen on" in reason:
            raise PortTakenError(message, hint)
        return ToolchainError(message, hint)


class _Talk:
    """Counts the lines of a server: few in all, and few a second of sessions that wait."""

    def __init__(self) -> None:
        self._lines = 0
        self._waits = 0.0
        self._since = time.monotonic()

    def is_too_much(self, said: ServerSaid) -> bool:
        """Count one more line; return whether no honest server says so many."""
        if not said.is_of_waiting:
            self._lines += 1
            return self._lines > _MOST_LINES
        now = time.monotonic()
        self._waits = max(0.0, self._waits - _WAITS_PER_S * (now - self._since)) + 1
        self._since = now
        return self._waits > _MOST_WAITS


def _document(line: str) -> ServerSaid:
    try:
        return ServerSaid.model_validate_json(line)
    except ValidationError:  # it may say anything else, too
        return ServerSaid()
