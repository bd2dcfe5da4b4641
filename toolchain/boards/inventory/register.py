"""Reads, adds and removes the boards of `toolchain.toml`; comments and other content are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import tomlkit
from pydantic import ValidationError
from tomlkit.exceptions import TOMLKitError

from toolchain.architectures.rates import BoardRates
from toolchain.boards.board import Board
from toolchain.boards.emulation import stored
from toolchain.boards.labgrid.client import place_power
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.hostkeys import checked_host_key
from toolchain.boards.ssh.transport import SshTransport
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.keys import NAME, THIS_HOST, BoardEntry, starter_text
from toolchain.configuration.settings import configuration, shown_value, state_dir
from toolchain.configuration.table import reason_of
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.files.turns import one_at_a_time
from toolchain.host import host_profile
from toolchain.profiles import class_names, load_profile
from toolchain.runtime import arch_of

_LOCK_SECONDS = 20.0


def names(group: str | None = None) -> list[str]:
    """Return the names of the boards in the order of the file; of one group, if given."""
    boards = configuration().boards
    return [name for name, entry in boards.items() if group is None or group in entry.groups]


def names_of_machine(name: str) -> list[str]:
    """Return the boards of the file that are devices of the same machine as the board `name`."""
    boards = configuration().boards

    def machine(entry: BoardEntry) -> tuple[str, int | None, str | None]:
        return entry.host, entry.port, entry.jump

    if name not in boards:
        return [name]
    return [other for other, entry in boards.items() if machine(entry) == machine(boards[name])]


def load(name: str, *, make_folder: bool = True) -> Board:
    """Return a board of the file, without connecting.

    Parameters
    ----------
    make_folder
        As of `of_this_host`.

    Raises
    ------
    UsageError
        Its class or host key is wrong; the message names the entry.
    ToolchainError
        It is this host, and its folder cannot be made.
    """
    entry = configuration().boards[name]
    if entry.host == THIS_HOST:
        return of_this_host(name, entry.device or "", make_folder=make_folder, carrier=entry.carrier)
    try:
        profile = load_profile(entry.board_class)
        arch_of(profile)  # refuses a class whose boards cannot run edge-rt
        address = address_of(name, entry)
    except UsageError as error:
        where = f"{configuration().file}: [boards.{name}]"
        raise UsageError(f"{where}: {error.message}", error.hint) from error
    return Board(
        name=name,
        profile=profile,
        emulated=False,
        shared_cpu=False,
        transport=SshTransport(address, entry.root),
        tracker_key=profile.name,
        record_class=profile.name,
        only_device=entry.device or "",
        power=entry.power or (place_power(entry.labgrid) if entry.labgrid else None),
        place=entry.labgrid,
        carrier=entry.carrier,
    )


def of_this_host(
    name: str, only_device: str = "", *, make_folder: bool = True, carrier: str = "ssh"
) -> Board:
    """Return this host as a board, with the features that its CPU reports, or one of its devices.

    Parameters
    ----------
    make_folder
        Make the board's folder, which is needed to use it and not to show it.

    Raises
    ------
    UsageError
        The board's folder belongs to another user.
    ToolchainError
        The folder cannot be made.
    """
    root = state_dir() / "boards" / name
    try:
        for private in (state_dir(), root) if make_folder else ():
            atomic.make_private_folder(private)
    except OSError as error:
        raise ToolchainError(
            f"cannot make the folder {root} of the board {name!r}: {error.strerror}",
            "set TOOLCHAIN_STATE_DIR to a folder that can be written",
        ) from error
    profile = host_profile()
    return Board(
        name=name,
        profile=profile,
        emulated=False,
        shared_cpu=True,
        transport=LocalTransport(root),
        tracker_key=THIS_HOST,
        record_class=profile.name,
        only_device=only_device,
        carrier=carrier,
    )


def address_of(name: str, entry: BoardEntry) -> SshAddress:
    """Return the SSH address of an entry."""
    return SshAddress(
        host=entry.host,
        port=entry.port,
        user=entry.user,
        host_key=checked_host_key(entry.host_key),
        identity=entry.identity,
        jump=entry.jump,
        name=name,
        ssh=entry.ssh,
    )


def free_name(wanted: str | None, host: str) -> str:
    """Return the name for a new board: `wanted`, or the first part of the host's name.

    Raises
    ------
    UsageError
        The name is malformed, or it is taken.
    """
    name = wanted or (host if re.fullmatch(r"[\d.]+|.*:.*", host) else host.partition(".")[0]).replace(
        ":", "-"
    )
    if not re.fullmatch(NAME, name):
        raise UsageError(
            f"--name {name}: not a board's name", "use letters, digits, '.', '_' and '-': --name NAME"
        )
    if name == "local" or name in class_names():
        owner = "this host" if name == "local" else "a board class"
        raise UsageError(f"--name {name}: taken by {owner}", f"use another, such as --name {name}-1")
    if name in names():
        raise UsageError(
            f"there is already a board {name} in {configuration().file}",
            f"use another name: --name {name}-2, or first `toolchain board remove {name}`",
        )
    if name in stored.names():
        raise UsageError(
            f"--name {name}: taken by an emulated board", f"use another, such as --name {name}-1"
        )
    return name


def enter(name: str, entry: BoardEntry) -> Path:
    """Add a board to the file, which is created if needed; return the file.

    Raises
    ------
    UsageError
        The file has a board of that name, or cannot be read.
    ToolchainError
        It cannot be written; the old content is kept.
    """

    def add(document: tomlkit.TOMLDocument) -> None:
        boards = document.setdefault("boards", tomlkit.table(is_super_table=True))
        if name in boards:
            raise UsageError(f"there is already a board {name}", "use another name: --name NAME")
        table = tomlkit.table()
        for key, value in entry.model_dump(mode="json", by_alias=True, exclude_defaults=True).items():
            table.add(key, value)
        boards.append(name, table)

    return _edit(add)


def log_in_as(name: str, user: str) -> Path:
    """Set the login of a board of the file to `user`; return the file."""

    def change(document: tomlkit.TOMLDocument) -> None:
        document["boards"][name]["user"] = user

    return _edit(change)


def pin(names: Sequence[str], host_key: str) -> Path:
    """Set the pinned host key of boards of the file; return the file.

    Raises
    ------
    UsageError
        One is no longer in the file, or it cannot be read.
    ToolchainError
        It cannot be written; the old content is kept.
    """

    def change(document: tomlkit.TOMLDocument) -> None:
        boards = document.get("boards", {})
        for name in names:
            if name not in boards:
                raise UsageError(f"there is no board {name!r} in {FILE_NAME}", "add it: toolchain board add")
            boards[name]["host_key"] = host_key

    return _edit(change)


def set_rates(name: str, rates: BoardRates) -> Path:
    """Set the measured rates of a board of the file; return the file.

    Raises
    ------
    UsageError
        There is no board of that name in the file, or it cannot be read.
    ToolchainError
        It cannot be written; the old content is kept.
    """

    def change(document: tomlkit.TOMLDocument) -> None:
        boards = document.get("boards", {})
        if name not in boards:  # removed since it was read
            raise UsageError(f"there is no board {name!r} in {FILE_NAME}", "add it: toolchain board add")
        boards[name]["rates"] = rates.model_dump(mode="json", exclude_none=True)

    return _edit(change)


def take_out(name: str) -> Path:
    """Remove a board from the file; return the file.

    Raises
    ------
    UsageError
        There is no board of that name in the file.
    """

    def remove(document: tomlkit.TOMLDocument) -> None:
        boards = document.get("boards", {})
        if name not in boards:
            known = ", ".join(boards) or "none"
            raise UsageError(f"there is no board {name!r} in {FILE_NAME}", f"the boards there are: {known}")
        del boards[name]
        if not boards:
            del document["boards"]

    return _edit(remove)


def _edit(change: Callable[[tomlkit.TOMLDocument], None]) -> Path:
    file = (configuration().file or Path.cwd() / FILE_NAME).resolve()
    try:
        atomic.make_private_folder(state_dir())
        with one_at_a_time(state_dir() / "toolchain.toml.lock", _LOCK_SECONDS, f"changing {file}"):
            # Bytes, so that line endings are kept.
            text = file.read_bytes().decode() if file.exists() else starter_text()
            document = tomlkit.parse(text)
            change(document)
            _check(document)
            atomic.write_bytes(file, tomlkit.dumps(document).encode())
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}", f"edit {file}") from error
    except OSError as error:
        raise atomic.cannot_write(file, error) from error
    configuration.cache_clear()
    return file


def _check(document: tomlkit.TOMLDocument) -> None:
    """Check the boards of a changed document, so that no broken one is written."""
    for name, table in document.get("boards", {}).items():
        try:
            BoardEntry(**table.unwrap())
        except ValidationError as error:
            problem = error.errors()[0]
            key = ".".join(str(part) for part in ("boards", name, *problem["loc"]))
            value = shown_value(("boards", name, *problem["loc"]), problem["input"])
            raise UsageError(f"{key} = {value}: {reason_of(problem)}") from error
