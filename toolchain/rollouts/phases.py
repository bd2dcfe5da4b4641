"""Cuts a list of boards into the phases of a rollout."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from toolchain.errors import UsageError
from toolchain.quantities import counted

_SHARE = re.compile(r"([1-9]\d{0,5})|([1-9]\d?|100)%")
_HINT = "such as --phases 1,10%,100%: how many boards have the release after each phase"


def check_phases(text: str) -> list[str]:
    """Return the shares of `--phases`, such as `1` and `10%`.

    Raises
    ------
    UsageError
        A share is neither a number nor a percentage.
    """
    shares = [share.strip() for share in text.split(",")]
    for share in shares:
        if not _SHARE.fullmatch(share):
            raise UsageError(f"--phases {text}: {share!r} is no number of boards", _HINT)
    return shares


def cut(boards: Sequence[str], shares: Sequence[str]) -> list[list[str]]:
    """Return the boards of each phase; phases that add no board are dropped.

    A percentage is rounded up, so that a phase never has less than it says. Boards beyond the last share
    are in no phase.

    Raises
    ------
    UsageError
        A share is smaller than the one before it.
    """
    phases, done = [], 0
    for share in shares:
        count = math.ceil(len(boards) * int(share[:-1]) / 100) if share.endswith("%") else int(share)
        upto = min(count, len(boards))
        if upto < done and count < done:
            raise UsageError(
                f"--phases {','.join(shares)}: {share} of {counted(len(boards), 'board')} is less than "
                "the share before",
                _HINT,
            )
        if upto > done:
            phases.append(list(boards[done:upto]))
            done = upto
    return phases
