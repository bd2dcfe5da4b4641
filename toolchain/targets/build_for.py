"""What `tasks`, `tune` and `build` make code for: boards of a class, or one of them."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.profiles import Profile


@dataclass(frozen=True)
class BuildFor:
    """A board class, perhaps of one board.

    Attributes
    ----------
    board
        The board's name; None: the class was named.
    record_class
        The class under which tuning records are kept and looked up: `<class>+emulated` for an emulated board.
    """

    profile: Profile
    board: str | None
    emulated: bool
    record_class: str
