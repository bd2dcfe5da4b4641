"""The board class or board for which `tasks`, `tune` and `build` generate code."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.profiles import Profile


@dataclass(frozen=True)
class BuildFor:
    """A board class to generate code for, or one board of it.

    Attributes
    ----------
    board
        Name of the board; None if the user named the class.
    record_class
        Class under which tuning records are stored and looked up: `<class>+emulated` for an emulated board.
    """

    profile: Profile
    board: str | None
    emulated: bool
    record_class: str
