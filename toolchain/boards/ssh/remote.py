"""A script that runs on a board: its channel, its output, its end."""

from __future__ import annotations

import contextlib
import io
import re
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import paramiko

from toolchain.answers import shown
from toolchain.boards.output.kept import MOST_ERRORS, Kept, Log
from toolchain.boards.ssh.connection import SshConnection
from toolchain.boards.ssh.scripts import command_line
from toolchain.boards.transport import DeadlineError
from toolchain.errors import CheckError, ToolchainError
from toolchain.foreign import last_line

START_S = 30.0  # until a script's first answer; a board under load takes seconds
_NOISE = 1 << 16  # bytes a login shell may print before
_READ = 1 << 18
_ANSWER = re.compile(r"ready( [1-9][0-9]{0,9})?|folder|missing|denied|pipe")
_JOIN_S = 2.0


class _Output(io.RawIOBase):
    """The standard output of a channel; reads fail with TimeoutError after `deadline`."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self.deadline: float | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        self._channel.settimeout(left)
        data = self._channel.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class Script:
    """A script of `scripts` that has started on a board.

    Attributes
    ----------
    answer
        Its first answer: `ready`, perhaps with a process number, or a problem.
    stdout
        Its output after that answer.
    """

    def __init__(
        self, connection: SshConnection, script: str, root: str, *arguments: str, log: Path | None = None
    ) -> None:
        self._connection = connection
        token = secrets.token_hex(8)
        self.channel = connection.channel()
        self._raw = _Output(self.channel)
        self.stdout: IO[bytes] = io.BufferedReader(self._raw, _READ)
        self._errors = Kept(MOST_ERRORS, last=True)
        self._log = Log(log) if log else None
        self._drain = threading.Thread(target=self._read_errors, name="stderr of a board", daemon=True)
        try:
            self.channel.settimeout(START_S)
            self.channel.exec_command(command_line(script, token, root, *arguments))
            self._drain.start()
            self.answer = self._first_words(token.encode())
        except BaseException as error:
            self.channel.close()
            if isinstance(error, (paramiko.SSHException, EOFError, OSError)):
                raise self.failure(error) from error
            raise

    def __enter__(self) -> Script:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def limit(self, seconds: float | None) -> None:
        """Let reads of `stdout` raise TimeoutError after `seconds`; None for no limit."""
        self._raw.deadline = None if seconds is None else time.monotonic() + seconds

    @property
    def connected(self) -> bool:
        """Whether the connection works, as far as is known."""
        return self._connection.alive

    @property
    def pid(self) -> int:
        """Process number on the board, which is also its process group; 0 if the script reported none."""
        return int(self.answer.partition(" ")[2] or 0)

    def code(self) -> int | None:
        """Return the return code as in `Completed`, None while it runs; raise if the channel was lost."""
        if not self.channel.status_event.is_set():
            return None
        if self.channel.exit_signal is not None:
            return -int(self.channel.exit_signal)
        if self.channel.exit_status < 0:
            raise self.failure(None)
        return int(self.channel.exit_status)

    def wait(self, seconds: float) -> int | None:
        """Wait at most `seconds`; return the code, or None if the script still runs."""
        self.channel.status_event.wait(seconds)
        return self.code()

    def settle(self) -> None:
        """Wait at most 2 s for the end of standard error, which comes when the watcher on the board ends."""
        self._drain.join(_JOIN_S)

    def errors(self) -> bytes:
        """Return the end of its standard error, after waiting briefly for it to close."""
        self.settle()
        return self._errors.content()

    @property
    def errors_dropped(self) -> int:
        """Number of bytes of standard error that were not kept."""
        return self._errors.dropped

    def last_words(self) -> str:
        """Return the last part of its last error message: the reason."""
        return last_line(self.errors()).rpartition(": ")[2]

    def failure(self, error: BaseException | None) -> ToolchainError:
        """Return the error for a channel that ended early or timed out."""
        if not self._connection.alive:
            return self._connection.lost()
        if isinstance(error, TimeoutError):
            return DeadlineError(f"{self._connection.label}: no progress for too long; is it very busy?")
        said = (
            self.last_words()
            if self._drain.is_alive() or self._errors.content()
            else str(error or "no exit code")
        )
        return ToolchainError(f"{self._connection.label}: a command there ended without an exit code: {said}")

    def close(self) -> None:
        """Close the channel; the watcher on the board then ends the command."""
        with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
            self.channel.close()
        if self._drain.ident is not None:
            self._drain.join(_JOIN_S)

    def send(self, chunks: Callable[[int], bytes], size: int, patience_s: float) -> None:
        """Send all that `chunks` reads, then end of input.

        A thread sends, so that Ctrl-C interrupts only the wait for it: an interrupt inside paramiko can leave
        one of its locks taken, and then the connection cannot be closed any more.
        """
        failures: list[BaseException] = []
        self.channel.settimeout(patience_s)

        def run() -> None:
            try:
                while chunk := chunks(size):
                    self.channel.sendall(chunk)
                self.channel.shutdown_write()
            except BaseException as error:
                failures.append(error)

        sending = threading.Thread(target=run, name="input of a board", daemon=True)
        sending.start()
        sending.join()
        if failures:
            raise failures[0]

    def _first_words(self, token: bytes) -> str:
        self.limit(START_S)
        noise = 0
        while line := self.stdout.readline(_NOISE):
            if line.startswith(token + b" "):
                self.limit(None)
                return self._check_answer(line[len(token) + 1 :].decode(errors="replace").strip())
            noise += len(line)
            if noise > _NOISE:
                break
        raise EOFError("its login shell did not start a command")

    def _check_answer(self, answer: str) -> str:
        if not _ANSWER.fullmatch(answer):
            raise CheckError(
                f"{self._connection.label}: a script there answered {shown(answer)}, "
                "which no script of ours prints",
                "its login must run a POSIX shell; look with `toolchain board shell`",
            )
        return answer

    def _read_errors(self) -> None:
        with self._log or contextlib.nullcontext() as log:
            while data := self._next_errors():
                if log:
                    log.write(data)
                else:
                    self._errors.take(data)

    def _next_errors(self) -> bytes:
        while True:
            try:
                return bytes(self.channel.recv_stderr(_READ))
            except TimeoutError:  # the timeout is meant for readers of stdout
                continue
            except (EOFError, OSError):
                return b""
