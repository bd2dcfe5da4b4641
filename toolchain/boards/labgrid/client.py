"""Calls `labgrid-client`, which is no part of this package: it is started, never imported."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from toolchain.boards.power.program import ProgramResult, run_program
from toolchain.configuration.labgrid import LabgridPlace
from toolchain.configuration.power import PowerCommands
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.foreign import last_line, printable, shortened

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
        """Whether it is this user on this host, as labgrid tells them apart."""
        user = os.environ.get("LG_USERNAME") or getpass.getuser()
        host = os.environ.get("LG_HOSTNAME") or socket.gethostname()
        return (self.user, self.host) == (user, host)

    def __str__(self) -> str:
        return f"{printable(self.user)} on {printable(self.host)} since {printable(self.since)}"


def find_client() -> str | None:
    """Return the path of the client: on the PATH, or beside this Python; None if it is not installed."""
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
    names = [line.split()[0] for line in _said(place, "places").splitlines() if line.strip()]
    if place.place not in names:
        known = shortened(", ".join(names) or "none")
        raise UsageError(
            f"the labgrid coordinator {place.coordinator} has no place {place.place}", f"it has: {known}"
        )


def holder_of(place: LabgridPlace) -> PlaceHolder | None:
    """Return who holds a place, None if nobody does; errors as of `check_place`."""
    for line in _said(place, "who").splitlines()[1:]:
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
    _said(place, "release")


def _said(place: LabgridPlace, command: str) -> str:
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
