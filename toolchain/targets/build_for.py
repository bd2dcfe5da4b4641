"""The board class or board for which `tasks`, `tune` and `build` generate code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolchain.profiles import Profile

RatesOf = Literal["class", "board"]


@dataclass(frozen=True)
class BuildFor:
    """A board class to generate code for, or one board of it.

    Attributes
    ----------
    board
        Name of the board; None if the user named the class.
    record_class
        Class under which tuning records are stored and looked up: `<class>+emulated` for an emulated board.
    rates
        Whose rates are in `profile`: those of the class, or what was measured on the board.
    """

    profile: Profile
    board: str | None
    emulated: bool
    record_class: str
    rates: RatesOf = "class"
