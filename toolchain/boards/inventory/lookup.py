"""Finds boards: `local`, those of `toolchain.toml`, and the emulated ones of the state folder."""

from __future__ import annotations

import difflib
from functools import partial

from toolchain.boards.board import Board, class_alone
from toolchain.boards.emulation import emulated, stored
from toolchain.boards.inventory import register
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError, UsageError
from toolchain.profiles import class_names, load_profile
from toolchain.runtime import arch_of
from toolchain.targets.build_for import BuildFor

LOCAL = "local"


def local_board() -> Board:
    """Return the board `local`: this host, with the features that its CPU reports."""
    return register.of_this_host(LOCAL)


def list_boards() -> list[Board]:
    """Return every usable board, `local` first, without connecting; `broken_boards` has the others."""
    return [local_board(), *(board for board in _load_all().values() if isinstance(board, Board))]


def shown_boards() -> tuple[list[Board], dict[str, ToolchainError]]:
    """Return the boards of `list_boards` and of `broken_boards`, to be shown: nothing is made or changed.

    A board that is this host has no folder unless something has used it.
    """
    loaded = _load_all(make_folders=False)
    usable = [board for board in loaded.values() if isinstance(board, Board)]
    broken = {name: error for name, error in loaded.items() if isinstance(error, ToolchainError)}
    return [register.of_this_host(LOCAL, make_folder=False), *usable], broken


def broken_boards() -> dict[str, ToolchainError]:
    """Return the boards whose entry or state is broken, each with its error."""
    return {name: error for name, error in _load_all().items() if isinstance(error, ToolchainError)}


def _load_all(*, make_folders: bool = True) -> dict[str, Board | ToolchainError]:
    boards: dict[str, Board | ToolchainError] = {}
    of_file = partial(register.load, make_folder=make_folders)
    for load, names in ((emulated.load, stored.names()), (of_file, register.names())):
        for name in names:
            try:
                boards[name] = load(name)
            except ToolchainError as error:
                boards[name] = error
    return boards


def find_board(name: str) -> Board:
    """Return the board `name`, or the first board of the class (no emulated one) or group `name`.

    Raises
    ------
    UsageError
        There is no such board; the message lists the boards.
    ToolchainError
        Its state is broken.
    """
    return find_boards(name)[0]


def find_boards(name: str) -> list[Board]:
    """Return the board `name`, or all boards of the class (no emulated ones) or group `name`.

    Raises
    ------
    UsageError
        There is no such board; the message lists the boards.
    ToolchainError
        The state of a board is broken.
    """
    if name == LOCAL:
        return [local_board()]
    if name in register.names():
        return [register.load(name)]
    if name in stored.names():
        return [emulated.load(name)]
    if name not in class_names():
        if grouped := _grouped(name):
            return grouped
        raise _unknown(name)
    entries = configuration().boards
    if of_class := [register.load(board) for board in register.names() if entries[board].board_class == name]:
        return of_class
    arch_of(load_profile(name))  # refuses a class whose boards cannot run edge-rt
    raise UsageError(
        f"{name}: that is a board class, and this step needs a board; there are: "
        + ", ".join(_board_names()),
        f"add yours: `toolchain board add HOST --class {name}`; or start an emulated one, which becomes the "
        f"board {emulated.default_name(name)}: `toolchain board emulate start {name}`",
    )


def find_measured(name: str, *, on_boards: bool) -> list[Board]:
    """Return the boards to tune for.

    If nothing is measured on them (`on_boards` is false), `name` may be a class without boards.

    Raises
    ------
    UsageError, ToolchainError
        As `find_boards`.
    """
    return [class_alone(name)] if not on_boards and name in class_names() else find_boards(name)


def group(name: str) -> list[Board]:
    """Return the boards of a group.

    Raises
    ------
    UsageError
        No board is in the group; the message lists the groups.
    """
    if members := _grouped(name):
        return members
    groups = {group_name for entry in configuration().boards.values() for group_name in entry.groups}
    groups |= {group_name for board in stored.names() for group_name in stored.groups_of(board)}
    known = ", ".join(sorted(groups)) or "none"
    raise UsageError(f"--group {name}: no board is in such a group", f"the groups are: {known}")


def _grouped(name: str) -> list[Board]:
    """Return the boards of a group, those of the file first."""
    of_file = [register.load(board) for board in register.names(name)]
    return [*of_file, *(emulated.load(board) for board in stored.names_in_group(name))]


def find_target(name: str) -> BuildFor:
    """Return what to build for, given a board or a board class.

    Raises
    ------
    UsageError
        There is no such board or class; the message lists both.
    """
    if name in class_names():
        return BuildFor(load_profile(name), None, emulated=False, record_class=name)
    if name in _board_names():
        return find_board(name).build_for
    raise _unknown(name)


def _board_names() -> list[str]:
    return [LOCAL, *register.names(), *stored.names()]


def _unknown(name: str) -> UsageError:
    boards, classes = _board_names(), class_names()
    near = difflib.get_close_matches(name, [*boards, *classes], n=1)
    known = f"the boards are: {', '.join(boards)}; the board classes: {', '.join(classes)}"
    return UsageError(
        f"{name}: there is no such board or board class; {known}",
        f"did you mean {near[0]!r}?" if near else "`toolchain board list` shows the boards",
    )


# The command line of the OpenSSH client to log in on a board.


def login_command(name: str) -> list[str]:
    """Return the command that opens a shell on the board `name`.

    Raises
    ------
    UsageError
        There is no such board, or it is a folder of this host.
    MissingError
        No OpenSSH client is installed.
    """
    transport = find_board(name).transport
    if not transport.is_remote:
        raise UsageError(
            f"board {name} is a folder of this host, so there is no login",
            f"`toolchain board exec {name} -- COMMAND` runs a command there",
        )
    return transport.ssh_command(asks=True)
