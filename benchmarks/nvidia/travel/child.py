"""Runs a program with a deadline; it and what it started end with this process's interest in it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_MOST = 16 * 2**20  # bytes of what it printed
_LOG = 4000  # characters of it that are kept of a failure
_END_S = 10.0


@dataclass
class Ended:
    """How a program ended.

    Attributes
    ----------
    code
        Exit code, negative for a signal; None: it was killed at its deadline.
    """

    code: int | None
    output: str
    errors: str

    @property
    def reason(self) -> str:
        """A sentence about its end, with the last line that it printed on stderr, or on stdout."""
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        last = f": {lines[-1][-300:]}" if lines else ""
        if self.code is None:
            return f"it was killed at its deadline{last}"
        if self.code < 0:
            return f"it ended by signal {-self.code} ({signal.strsignal(-self.code)}){last}"
        return f"it ended with {self.code}{last}"

    @property
    def log(self) -> str:
        """The end of what it printed: the machine may be gone when somebody wants to know more."""
        return (self.errors.strip() or self.output.strip())[-_LOG:]


def run(argv: list[str], seconds: float, environment: dict[str, str], folder: Path) -> Ended:
    """Run a program in a group of its own; kill the group at the deadline, and whenever this function ends.

    Raises
    ------
    OSError
        It cannot be started.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
        code: int | None = None
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            end(process)
        return Ended(code, _text(output), _text(errors))


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program's group, and wait for the program."""
    with suppress(ProcessLookupError, PermissionError):  # all of it has ended
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # stuck in its driver; nothing more can be done from here
        process.wait(timeout=_END_S)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MOST).decode(errors="replace")
