"""Runs a program of this host to its end, with a deadline and little of its output kept."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolchain.boards.local.process import end_group
from toolchain.boards.output.kept import Kept
from toolchain.processes.interrupts import uninterrupted

_MOST = 1 << 14  # bytes of its output, of which messages show the last line
_CHUNK = 1 << 16
_TICK_S = 0.02


@dataclass(frozen=True)
class ProgramResult:
    """The end of a program: its exit code, None if it was killed at the deadline, and its last output."""

    code: int | None
    output: bytes


def run_program(
    argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> ProgramResult:
    """Run a program in a process group of its own, which is killed at the end, or at the deadline.

    A child that shall last longer, such as a daemon, has to leave the group, as daemons do; that it still
    holds the program's output open delays nobody.

    Parameters
    ----------
    environment
        Its environment variables; None: this process's.

    Raises
    ------
    OSError
        The program cannot be started.
    """
    with uninterrupted():
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
    try:
        return _awaited(child, time.monotonic() + timeout_s)
    finally:
        end_group(child)


def _awaited(child: subprocess.Popen[bytes], deadline: float) -> ProgramResult:
    assert child.stdout is not None  # noqa: S101 - PIPE above
    handle, kept, is_open = child.stdout.fileno(), Kept(_MOST, last=True), True
    os.set_blocking(handle, False)
    while True:
        # WNOWAIT does not reap the child, so that its group can still be killed.
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if is_open and select.select([handle], [], [], 0 if ended else _TICK_S)[0]:
            data = os.read(handle, _CHUNK)
            kept.take(data)
            is_open = bool(data)
            if is_open and time.monotonic() < deadline:
                continue  # there may be more, after its end too
        if ended:
            code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            return ProgramResult(code, kept.content())
        if time.monotonic() >= deadline:
            return ProgramResult(None, kept.content())
        if not is_open:
            time.sleep(_TICK_S)
