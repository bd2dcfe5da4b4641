"""The options with which a command names the boards of a fleet."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from toolchain.cli import complete
from toolchain.cli.options import LONGEST_S
from toolchain.errors import UsageError

if TYPE_CHECKING:
    from toolchain.boards.board import Board

Function = TypeVar("Function", bound=Callable[..., Any])
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[float]):
    """A number of seconds, such as `90`, `90s`, `10m`, `2h` or `1d`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", str(value))
        seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else None
        if seconds is None or seconds > LONGEST_S:
            self.fail(f"{value!r} is no duration, such as 90s, 10m or 2h; at most two weeks.", param, ctx)
        return seconds


def fleet_options(function: Function) -> Function:
    """Add `--board` and `--group`, passed as `board_names` and `group`, and `--at-once`."""
    for option in (
        click.option(
            "--at-once",
            type=click.IntRange(1, 256),
            default=32,
            show_default=True,
            metavar="N",
            help="Boards at the same time.",
        ),
        click.option("--group", metavar="G", help="All boards of this group of toolchain.toml."),
        click.option(
            "--board",
            "board_names",
            metavar="B",
            multiple=True,
            shell_complete=complete.boards,
            help="A board, or all boards of a class; may be repeated.",
        ),
    ):
        function = option(function)
    return function


def chosen_boards(board_names: tuple[str, ...], group: str | None, *, or_all: bool = False) -> list[Board]:
    """Return the boards that the options name, each once.

    Raises
    ------
    UsageError
        Neither or both options are given, or a name is unknown.
    """
    from toolchain.boards.inventory import lookup

    if group and board_names:
        raise UsageError("--board and --group exclude each other", "leave out one of them")
    if group:
        return lookup.group(group)
    if board_names:
        boards = {board.name: board for name in board_names for board in lookup.find_boards(name)}
        return list(boards.values())
    if or_all:
        return lookup.list_boards()
    raise UsageError("no board is named", "give --board B, which may be repeated, or --group G")
