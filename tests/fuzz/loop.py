"""Cases out of seeds, for a number or for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from random import Random

Attempt = Callable[[Random], None]
Harness = Callable[[], AbstractContextManager[Attempt]]


def run(
    name: str,
    harness: Harness,
    seed: int,
    *,
    cases: int | None = None,
    seconds: float | None = None,
    first: int = 0,
) -> int:
    """Try cases until there were `cases`, or for `seconds`; return how many.

    Raises
    ------
    AssertionError
        One failed; says which, and how to see it again.
    """
    with harness() as attempt:
        end = None if seconds is None else time.monotonic() + seconds
        for case in count(first):
            if (cases is not None and case - first >= cases) or (end and time.monotonic() >= end):
                return case - first
            try:
                attempt(Random(f"{seed}:{case}"))
            except Exception as error:
                again = f".venv/bin/python -m tests.fuzz {name} --seed {seed} --case {case}"
                raise AssertionError(f"{name}, seed {seed}, case {case} (again: {again}): {error}") from error
    raise AssertionError
