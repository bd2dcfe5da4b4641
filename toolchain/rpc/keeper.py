"""One server on one board, started again when it dies."""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolchain.boards.transport import DeadlineError, Process, Transport
from toolchain.errors import ToolchainError

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 30.0
_HEALTHY_S = 30.0  # a server that ran this long may be started again at once
_END_S = 1.0  # between the end of a server's output and its own
_MAX_LINE = 64 * 1024


class Keeper(threading.Thread):
    """Runs `edge-rt serve` on a board until `stop`.

    Parameters
    ----------
    argv
        The server's command line on the board.
    errors
        File of this host that takes what the server says on its standard error.

    Attributes
    ----------
    port
        Where the server listens; None while it does not.
    failure
        Why it last ended or did not start; None until then.
    """

    def __init__(self, board: str, transport: Transport, argv: list[str], errors: Path) -> None:
        super().__init__(name=f"server on {board}", daemon=True)
        self.board = board
        self.port: int | None = None
        self.failure: ToolchainError | None = None
        self._transport = transport
        self._argv = argv
        self._errors = errors
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        """Start the server again and again, with growing pauses."""
        pause = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                self.failure = self._serve()
            except ToolchainError as error:
                self.failure = error
            self.port = None
            if self._stopping.is_set():
                return
            log.warning("%s; again in %g s", self.failure, pause)
            self._stopping.wait(pause)
            healthy = time.monotonic() - begun > _HEALTHY_S
            pause = _FIRST_PAUSE_S if healthy else min(2 * pause, _LONGEST_PAUSE_S)

    def stop(self) -> None:
        """End the server, and wait until it and this thread have ended."""
        self._stopping.set()
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.close()
        if self.is_alive():
            self.join(_LONGEST_PAUSE_S)

    def _serve(self) -> ToolchainError:
        with self._lock:
            if self._stopping.is_set():
                return ToolchainError(f"the lab ends before the server on {self.board} started")
            process = self._process = self._transport.spawn(self._argv, self._errors)
        said = ""
        try:
            while line := process.stdout.readline(_MAX_LINE):
                said = line.decode(errors="replace").strip() or said
                self._hear(said)
        except ValueError:  # `stop` has closed it
            pass
        with self._lock:
            mine, self._process = self._process is process, None
        if not mine:
            return ToolchainError(f"board {self.board}: the server was stopped")
        code = None
        with suppress(DeadlineError):
            code = process.wait(_END_S)
        process.close()
        return self._ended(said, code)

    def _hear(self, line: str) -> None:
        log.info("%s: %s", self.board, line)
        document = _document(line)
        if isinstance(document.get("port"), int):
            self.port = document["port"]

    def _ended(self, said: str, code: int | None) -> ToolchainError:
        error = _document(said).get("error")
        if isinstance(error, dict):
            reason = str(error.get("message"))
        elif code is not None and code < 0:
            reason = f"by signal {-code} ({signal.strsignal(-code)})"
        else:
            lines = (
                self._errors.read_text(errors="replace").strip().splitlines() if self._errors.exists() else []
            )
            reason = lines[-1] if lines else "it said nothing"
        return ToolchainError(
            f"board {self.board}: the server has ended: {reason}",
            f"see {self._errors}; `toolchain board show {self.board}`",
        )


def _document(line: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
