"""Switches a board's power by the user's commands."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolchain.boards.board import Board
from toolchain.boards.local.process import end_group
from toolchain.boards.output.kept import Kept
from toolchain.boards.transport import DeadlineError
from toolchain.configuration.power import PowerAction, PowerCommands
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.foreign import last_line, printable
from toolchain.processes.interrupts import uninterrupted

# Runs a program of this host to its end, with a deadline and little of its output kept.

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


def switch(board: Board, action: PowerAction, timeout_s: float | None = None) -> None:
    """Switch a board on, off, or off and on again; return when its commands have ended.

    Parameters
    ----------
    timeout_s
        Seconds for each command; None: those of the board's entry.

    Raises
    ------
    UsageError
        The board has no command for that.
    MissingError
        The program is not on this machine.
    DeadlineError
        The command did not end in time; it was killed.
    ToolchainError
        The command failed.
    """
    power = power_of(board)
    limit_s = timeout_s or power.timeout_s
    if action != "cycle" or power.cycle:
        _run(board, power, action, limit_s)
        return
    try:
        _run(board, power, "off", limit_s)
        time.sleep(power.pause_s)
    except BaseException:  # Ctrl-C too: a board that was to be cycled is not left without power
        with contextlib.suppress(ToolchainError):
            _run(board, power, "on", limit_s)
        raise
    _run(board, power, "on", limit_s)


def power_of(board: Board) -> PowerCommands:
    """Return the power commands of a board.

    Raises
    ------
    UsageError
        It has none; the message says why, or what to write.
    """
    if board.power:
        return board.power
    name = board.name
    if board.emulated:
        raise UsageError(
            f"board {name} is emulated: it has no power supply",
            f"`toolchain board emulate stop {name}`, then start it again",
        )
    if not board.transport.is_remote:
        raise UsageError(
            f"board {name} is this machine, which cannot switch itself on again", "name a board over SSH"
        )
    raise UsageError(
        f"board {name} has no power commands",
        f"in toolchain.toml: [boards.{name}] power = "
        '{on = ["PROGRAM", "WORD", …], off = […]}, or {cycle = […]}; see docs/howto/rack.md',
    )


def _run(board: Board, power: PowerCommands, action: PowerAction, limit_s: float) -> None:
    words = power.command(action)
    if words is None:
        raise UsageError(
            f"board {board.name} has no command to switch it {action}, only {power.program('cycle')} "
            "to cycle it",
            f"`toolchain board power cycle {board.name}`",
        )
    # The arguments may hold passwords.
    what = f"board {board.name}: its command for power {action}, {printable(power.program(action) or '')}"
    look = f"look at `power` of [boards.{board.name}] in toolchain.toml"
    try:
        ran = run_program(words, limit_s)
    except FileNotFoundError as error:
        raise MissingError(f"{what}: there is no such program on this machine", look) from error
    except OSError as error:
        raise ToolchainError(f"{what}, cannot be started: {error.strerror}", look) from error
    if ran.code is None:
        raise DeadlineError(f"{what}, did not end within {limit_s:g} s and was killed", look)
    if ran.code:
        ended = f"ended with exit code {ran.code}" if ran.code > 0 else f"was ended by signal {-ran.code}"
        raise ToolchainError(f"{what}, {ended}: {last_line(ran.output)}", look)
