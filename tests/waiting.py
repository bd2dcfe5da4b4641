"""Waiting for something to happen: events, never a guess of how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 150.0  # what takes longer does not happen; other work on the same cores takes nothing like it


def until(holds: Callable[[], object], seconds: float = PATIENCE_S, what: str = "it") -> None:
    """Wait until something holds; fail when it has not after so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.01)
