"""A board class in place of a board, for commands that measure with a model of its device."""

from __future__ import annotations

from typing import NoReturn, cast

from toolchain.boards.board import Board
from toolchain.boards.transport import LostError, Transport
from toolchain.profiles import load_profile


class Nowhere:
    """The transport of a board that does not exist: every use of it raises LostError."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, _asked: str) -> NoReturn:
        raise LostError(
            f"{self._name} is a board class: there is no board to reach",
            f"add yours: `toolchain board add HOST --class {self._name}`",
        )


def class_alone(name: str) -> Board:
    """Return a board without a machine for a class; its records belong to the class."""
    return Board(
        name=name,
        profile=load_profile(name),
        emulated=False,
        shared_cpu=False,
        transport=cast(Transport, Nowhere(name)),
        tracker_key="",
        record_class=name,
    )
