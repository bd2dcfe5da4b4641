"""A script that runs on a board: its channel, its output, its end."""

from __future__ import annotations

import contextlib
import io
import re
import secrets
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import paramiko

from toolchain.answers import shown
from toolchain.boards.output.kept import MOST_ERRORS, Kept, Log
from toolchain.boards.ssh.channel import START_S, Channel
from toolchain.boards.ssh.scripts import command_line
from toolchain.boards.transport import MOST_LINE, DeadlineError, LostError
from toolchain.errors import CheckError, ToolchainError
from toolchain.foreign import last_line

_NOISE = 1 << 16  # bytes a login shell may print before
_READ = 1 << 18
_ANSWER = re.compile(r"ready( [1-9][0-9]{0,9})?|folder|missing|denied|pipe")
_JOIN_S = 2.0
# How a login shell ends when a board stops, before its SSH server does: unknown, or killed.
_OF_A_STOP = (None, -signal.SIGHUP, -signal.SIGTERM, -signal.SIGKILL)


class _Output(io.RawIOBase):
    """The standard output of a channel; reads fail with TimeoutError after `deadline`.

    Attributes
    ----------
    noise
        The end of what came before the script's first answer; None after it.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.deadline: float | None = None
        self.noise: Kept | None = Kept(_NOISE, last=True)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        data = self._channel.receive(len(buffer), left)
        if self.noise:
            self.noise.take(data)
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
        self, channel: Channel, script: str, root: str, *arguments: str, log: Path | None = None
    ) -> None:
        token = secrets.token_hex(8)
        self._token = token.encode()
        self.channel = channel
        self._connection = channel.connection
        self._raw = _Output(channel)
        self.stdout: IO[bytes] = io.BufferedReader(self._raw, _READ)
        self._errors = Kept(MOST_ERRORS, last=True)
        self._log = Log(log) if log else None
        self._drain = threading.Thread(target=self._read_errors, name="stderr of a board", daemon=True)
        self._begun = False
        try:
            channel.execute(command_line(script, token, root, *arguments))
            self._begun = True
            self._drain.start()
            self.answer = self._first_words()
        except BaseException as error:
            channel.close()
            if isinstance(error, (paramiko.SSHException, EOFError, OSError)):
                raise self._not_started(error) from error
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
        return self.wait(0)

    def wait(self, seconds: float) -> int | None:
        """Wait at most `seconds`; return the code, or None if the script still runs."""
        if not self.channel.wait(seconds):
            return None
        if self.channel.code is None:
            raise self.failure(None)
        return self.channel.code

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
        label = self._connection.label
        if isinstance(error, TimeoutError) and self._connection.alive:
            return DeadlineError(f"{label}: no progress for too long; is it very busy?")
        if self._connection.ended():
            return self._connection.lost()
        reason = self.last_words() if self._errors.content() else str(error or "no exit code")
        return ToolchainError(f"{label}: a command there ended without an exit code: {reason}")

    def _not_started(self, error: BaseException) -> ToolchainError:
        """Return the error for a script that did not answer: the link, or what the login shell does first."""
        if self._connection.ended():
            return self._connection.lost()
        label = self._connection.label
        if not self._begun:
            why = "does not answer" if isinstance(error, TimeoutError) else "refuses"
            return ToolchainError(
                f"{label}: its SSH server {why} to run a command",
                f"try it by hand: `toolchain board shell {label.removeprefix('board ')}`",
            )
        printed = self._raw.noise.content() if self._raw.noise else b""
        noise = printed.partition(self._token)[0] + b"\n" + self.errors()
        late = isinstance(error, TimeoutError)
        if not late and not noise.strip() and self.channel.code in _OF_A_STOP:
            return LostError(f"{label}: the link broke as a command began", "run the same command again")
        what = f"has not started a command after {START_S:g} s" if late else "did not start a command"
        kind = DeadlineError if late else ToolchainError
        return kind(
            f"{label}: its login shell {what}; the last that it printed: {last_line(noise)}",
            "start files such as ~/.bashrc run before: let them print and ask nothing where "
            "no terminal is (`case $- in *i*) ;; *) return ;; esac` as .bashrc's first line)",
        )

    def close(self) -> None:
        """Close the channel; the watcher on the board then ends the command."""
        self.channel.close()
        if self._drain.ident is not None:
            self._drain.join(_JOIN_S)

    def send(self, chunks: Callable[[int], bytes], size: int, patience_s: float) -> None:
        """Send all that `chunks` reads, then end of input.

        A thread sends, so that Ctrl-C interrupts only the wait for it: an interrupt inside paramiko can leave
        one of its locks taken, and then the connection cannot be closed any more.
        """
        failures: list[BaseException] = []

        def run() -> None:
            try:
                while chunk := chunks(size):
                    self.channel.send(chunk, patience_s)
                self.channel.end_input()
            except BaseException as error:
                failures.append(error)

        sending = threading.Thread(target=run, name="input of a board", daemon=True)
        sending.start()
        sending.join()
        if failures:
            raise failures[0]

    def _first_words(self) -> str:
        self.limit(START_S)
        printed = 0
        while line := self.stdout.readline(_NOISE):
            # It may begin in a line of the login shell's.
            _, token, answer = line.partition(self._token + b" ")
            if token:
                self.limit(None)
                self._raw.noise = None
                return self._check_answer(answer.decode(errors="replace").strip())
            printed += len(line)
            if printed > _NOISE:
                break
        raise EOFError

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
            while data := self.channel.receive_errors(_READ):
                if log:
                    log.write(data)
                else:
                    self._errors.take(data)


# A dialogue with a command on a board over SSH.

_END_S = 15.0  # between the end of its output and its exit code


class SshDialogue:
    """A `Dialogue` through an SSH channel, whose window holds the sender back."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def send(self, data: bytes, patience: float) -> bool:
        """Send `data`; see `Dialogue.send`."""
        try:
            self._script.channel.send(data, patience)
        except TimeoutError as error:
            raise self._script.failure(error) from error
        except (OSError, EOFError) as error:
            if not self._script.connected:
                raise self._script.failure(error) from error
            return False
        return True

    def read_line(self, timeout: float) -> bytes:
        """Return the next line of the output; see `Dialogue.read_line`."""
        self._script.limit(timeout)
        try:
            line = self._script.stdout.readline(MOST_LINE)
        except TimeoutError as error:
            raise self._script.failure(error) from error
        if not line:
            self.wait(_END_S)  # raises if it was the link that ended
        return line

    def wait(self, timeout: float) -> int:
        """Wait for the command to end; see `Dialogue.wait`."""
        code = self._script.wait(timeout)
        if code is None:
            raise self._script.failure(TimeoutError())
        return code

    def errors(self) -> bytes:
        """Return the end of its standard error."""
        return self._script.errors()

    def close(self) -> None:
        """Close the channel."""
        self._script.close()
