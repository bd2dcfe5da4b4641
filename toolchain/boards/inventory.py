"""The boards there are: `local`, and the emulated ones of the state folder."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from toolchain.boards import emulated
from toolchain.boards.board import Board
from toolchain.boards.local import LocalTransport
from toolchain.config import state_dir
from toolchain.errors import ToolchainError, UsageError
from toolchain.profiles import Profile, class_names, host_profile, load_profile

LOCAL = "local"


@dataclass(frozen=True)
class BuildFor:
    """What `tasks`, `tune` and `build` need of `--board`: a class, perhaps of one board.

    `record_class` is the class under which tuning records are kept and looked up:
    `<class>+emulated` for an emulated board.
    """

    profile: Profile
    board: str | None
    emulated: bool
    record_class: str


def local_board() -> Board:
    """Return the board `local`: this host, with the features of its CPU."""
    root = state_dir() / "boards" / LOCAL
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolchainError(
            f"cannot make the folder {root} of the board 'local': {error.strerror}",
            "set TOOLCHAIN_STATE_DIR to a folder that can be written",
        ) from error
    profile = host_profile()
    return Board(
        name=LOCAL,
        profile=profile,
        emulated=False,
        shared_cpu=True,
        transport=LocalTransport(root),
        tracker_key=LOCAL,
        record_class=profile.name,
    )


def list_boards() -> list[Board]:
    """Return every usable board, `local` first; `broken_boards` has the others."""
    found = [local_board()]
    for name in emulated.names():
        try:
            found.append(emulated.load(name))
        except ToolchainError:
            continue  # reported by broken_boards
    return found


def broken_boards() -> dict[str, ToolchainError]:
    """Return the boards whose state cannot be used, each with what is wrong and what to type."""
    broken = {}
    for name in emulated.names():
        try:
            emulated.load(name)
        except ToolchainError as error:
            broken[name] = error
    return broken


def find_board(name: str) -> Board:
    """Return the board `name`.

    Raises
    ------
    UsageError
        There is none, or `name` is a board class, which does not say which board; lists the boards.
    ToolchainError
        Its state is broken.
    """
    if name == LOCAL:
        return local_board()
    if name in emulated.names():
        return emulated.load(name)
    if name in class_names():
        raise UsageError(
            f"--board {name}: that is a board class, and this step needs a board; there are: "
            + ", ".join(_board_names()),
            f"start one: `toolchain board emulate start {name}`, then --board {emulated.default_name(name)}",
        )
    raise _unknown(name)


def find_target(name: str) -> BuildFor:
    """Return what to build for, given a board or a board class.

    Raises
    ------
    UsageError
        There is neither of that name; lists both.
    """
    if name in class_names():
        return BuildFor(load_profile(name), None, emulated=False, record_class=name)
    if name == LOCAL or name in emulated.names():
        board = find_board(name)
        return BuildFor(board.profile, board.name, board.emulated, board.record_class)
    raise _unknown(name)


def _board_names() -> list[str]:
    return [LOCAL, *emulated.names()]


def _unknown(name: str) -> UsageError:
    boards, classes = _board_names(), class_names()
    near = difflib.get_close_matches(name, [*boards, *classes], n=1)
    known = f"the boards are: {', '.join(boards)}; the board classes: {', '.join(classes)}"
    return UsageError(
        f"--board {name}: there is no such board or board class; {known}",
        f"did you mean {near[0]!r}?" if near else "`toolchain board list` shows the boards",
    )
