"""Runs `labgrid-client` as a program: labgrid is never imported."""

from __future__ import annotations

import fcntl
import getpass
import hashlib
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from toolchain.boards.board import Board
from toolchain.boards.power.switch import ProgramResult, run_program
from toolchain.configuration.labgrid import LabgridPlace
from toolchain.configuration.power import PowerCommands
from toolchain.configuration.settings import state_dir
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.files.atomic import cannot_write, make_private_folder
from toolchain.files.turns import one_at_a_time
from toolchain.foreign import last_line, printable, shortened
from toolchain.processes.interrupts import uninterrupted

PROGRAM = "labgrid-client"
_ASK_S = 40.0
_OTHERS = ("LG_ENV", "LG_STATE", "LG_INITIAL_STATE", "LG_PROXY", "STATE")
"""Variables that would let the client use another file's places."""

_COLUMNS = re.compile(r"\s{2,}")


@dataclass(frozen=True)
class PlaceHolder:
    """The user and the host that hold a place, and since when, as the client prints it."""

    user: str
    host: str
    since: str

    @property
    def is_this_user(self) -> bool:
        """True if this user and host hold the place."""
        user = os.environ.get("LG_USERNAME") or getpass.getuser()
        host = os.environ.get("LG_HOSTNAME") or socket.gethostname()
        return (self.user, self.host) == (user, host)

    def __str__(self) -> str:
        return f"{printable(self.user)} on {printable(self.host)} since {printable(self.since)}"


def find_client() -> str | None:
    """Return the path of the client on the PATH or in this Python's folder; None if it is not installed."""
    beside = Path(sys.executable).with_name(PROGRAM)
    return shutil.which(PROGRAM) or (str(beside) if beside.is_file() else None)


def place_power(place: LabgridPlace) -> PowerCommands:
    """Return power commands that let labgrid switch a place."""
    client = find_client() or PROGRAM

    def words(action: str) -> tuple[str, ...]:
        return (client, "-x", place.coordinator, "-p", place.place, "power", action)

    return PowerCommands(on=words("on"), off=words("off"), cycle=words("cycle"))


def check_place(place: LabgridPlace) -> None:
    """Check that the coordinator has a place of exactly this name: the client takes parts of names, too.

    Raises
    ------
    UsageError
        It has none; the message lists the places.
    ToolchainError
        The coordinator does not answer.
    """
    names = [line.split()[0] for line in _query(place, "places").splitlines() if line.strip()]
    if place.place not in names:
        known = shortened(", ".join(names) or "none")
        raise UsageError(
            f"the labgrid coordinator {place.coordinator} has no place {place.place}", f"it has: {known}"
        )


def holder_of(place: LabgridPlace) -> PlaceHolder | None:
    """Return who holds a place, None if nobody does; errors as of `check_place`."""
    for line in _query(place, "who").splitlines()[1:]:
        user, host, name, since = (*_COLUMNS.split(line.strip()), "", "", "", "")[:4]
        if name == place.place:
            return PlaceHolder(user, host, since)
    return None


def acquire(place: LabgridPlace) -> str | None:
    """Acquire a place; return why that failed, None if it is ours now."""
    ran = _ask(place, "acquire")
    return None if ran.code == 0 else last_line(ran.output)


def release(place: LabgridPlace) -> None:
    """Release a place that this user has acquired; errors as of `check_place`."""
    _query(place, "release")


def _query(place: LabgridPlace, command: str) -> str:
    ran = _ask(place, command)
    if ran.code:
        raise ToolchainError(
            f"labgrid-client {command} failed for place {place.place} of {place.coordinator}: "
            f"{last_line(ran.output)}",
            f"`labgrid-client -x {place.coordinator} {command}` says more",
        )
    return ran.output.decode(errors="replace")


def _ask(place: LabgridPlace, command: str) -> ProgramResult:
    client = find_client()
    if client is None:
        raise MissingError(
            f"there is no labgrid-client on this machine, which acquires place {place.place}",
            "install it: pipx install labgrid",
        )
    environment = {name: value for name, value in os.environ.items() if name not in _OTHERS}
    argv = [client, "-x", place.coordinator, "-p", place.place, command]
    ran = run_program(argv, _ASK_S, environment)
    if ran.code is None:
        raise ToolchainError(
            f"the labgrid coordinator {place.coordinator} did not answer within {_ASK_S:g} s",
            "look at `labgrid` of the board in toolchain.toml, and whether the coordinator runs",
        )
    return ran


# Holds the places of boards while a command uses them.

_LOOK_S = 3.0
_TURN_S = 180.0  # for another command of ours that asks the coordinator about the same place


@contextmanager
def held_places(boards: Sequence[Board], wait_s: float | None, note: Callable[[str], None]) -> Iterator[None]:
    """Acquire the places of boards, and release at the end those that were not ours before.

    Commands of this user on this host share a place; the last one releases it. They acquire several places in
    one order, so that no two wait for each other.

    Parameters
    ----------
    wait_s
        Seconds to wait for a place that somebody else holds, if that is longer than its entry says.
    note
        Called when a place is waited for, and when one cannot be released.

    Raises
    ------
    UsageError
        A coordinator has no such place.
    MissingError
        There is no labgrid-client.
    ToolchainError
        Somebody else holds a place, or a coordinator does not answer.
    """
    places = {(board.place.coordinator, board.place.place): board for board in boards if board.place}
    with ExitStack() as stack:
        for _, board in sorted(places.items(), key=lambda item: item[0]):
            stack.enter_context(_held(board, wait_s, note))
        yield


@contextmanager
def _held(board: Board, wait_s: float | None, note: Callable[[str], None]) -> Iterator[None]:
    place = board.place
    assert place is not None  # noqa: S101 - the caller chose those that have one
    file = _file(place)
    users = os.open(file.with_suffix(".users"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        check_place(place)
        deadline, noted = time.monotonic() + max(wait_s or 0.0, place.wait_s), False
        try:
            while holder := _acquire(board, place, file, users):
                if time.monotonic() >= deadline:
                    raise _is_held(board, place, holder)
                if not noted:
                    note(f"waiting for place {place.place} of board {board.name}: {holder} has it")
                    noted = True
                time.sleep(_LOOK_S)
            yield
        finally:  # also after an interrupt in the middle of acquiring
            with uninterrupted(), _turn(file, place):
                _leave(place, file, users, note)
    finally:
        os.close(users)


def _file(place: LabgridPlace) -> Path:
    """Return the file that exists while a command of ours has the place acquired."""
    folder = state_dir() / "labgrid"
    try:
        make_private_folder(state_dir())
        make_private_folder(folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
    words = f"{place.coordinator} {place.place}"
    return folder / hashlib.sha256(words.encode()).hexdigest()[:16]


def _turn(file: Path, place: LabgridPlace) -> AbstractContextManager[None]:
    return one_at_a_time(file.with_suffix(".lock"), _TURN_S, f"acquiring or releasing place {place.place}")


def _acquire(board: Board, place: LabgridPlace, file: Path, users: int) -> PlaceHolder | None:
    """Acquire a place unless this user has it; return who else holds it, None if it is ours.

    Parameters
    ----------
    users
        Handle of the file that each command which uses the place has locked.
    """
    with _turn(file, place):
        holder = holder_of(place)
        if holder is None:
            file.touch(0o600)  # before: a place of ours that is never released would help nobody
            reason = acquire(place)
            if reason is not None:
                file.unlink(missing_ok=True)
                holder = holder_of(place)  # somebody may have been faster
                if holder is None:
                    raise ToolchainError(
                        f"board {board.name}: its place {place.place} of {place.coordinator} cannot be "
                        f"acquired: {reason}",
                        f"`labgrid-client -x {place.coordinator} -p {place.place} show` says more",
                    )
        if holder and not holder.is_this_user:
            file.unlink(missing_ok=True)  # a mark of before: the place was taken from us
            return holder
        fcntl.flock(users, fcntl.LOCK_SH)
        return None


def _leave(place: LabgridPlace, file: Path, users: int, note: Callable[[str], None]) -> None:
    """Release the place if it was acquired by us and no other command of ours uses it."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    if not file.exists():
        return
    try:
        release(place)
    except ToolchainError as error:
        note(f"warning: {error.message}")
        note(f"release it yourself: labgrid-client -x {place.coordinator} -p {place.place} release")
    with suppress(OSError):
        file.unlink()


def _is_held(board: Board, place: LabgridPlace, holder: PlaceHolder) -> ToolchainError:
    return ToolchainError(
        f"board {board.name}: its place {place.place} of the labgrid coordinator {place.coordinator} is held "
        f"by {holder}",
        f"wait for it: `wait_s` of `labgrid` in [boards.{board.name}], or --wait S where the command has it",
    )


def check_held(boards: Sequence[Board]) -> None:
    """Check that this user holds the places of boards, for what outlasts the command.

    Raises
    ------
    ToolchainError
        Somebody else holds one, or nobody.
    """
    for board in boards:
        place = board.place
        if place is None:
            continue
        holder = holder_of(place)
        if holder is None:
            raise ToolchainError(
                f"board {board.name}: nobody holds its place {place.place} of {place.coordinator}",
                f"first `labgrid-client -x {place.coordinator} -p {place.place} acquire`",
            )
        if not holder.is_this_user:
            raise _is_held(board, place, holder)
