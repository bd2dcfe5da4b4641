"""How provisioning does its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _untold(_: str) -> None:
    pass


@dataclass(frozen=True)
class How:
    """How steps are done: only listed or really done, with which password, with which progress messages.

    Attributes
    ----------
    dry_run
        List the needed steps and do none.
    ask_sudo
        Returns sudo's password on the board; called at most once, and only if a step needs it.
    progress
        Called with a message for each step, and when `edge-rt` is compiled (minutes, the first time).
    """

    dry_run: bool = False
    ask_sudo: Callable[[], str] | None = None
    progress: Callable[[str], None] = _untold


AT_ONCE = How()
