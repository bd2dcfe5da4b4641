"""Texts of steps that count, such as `compiling 3/7 functions`."""

from __future__ import annotations

import re

_COUNT = re.compile(r" (\d+)/(\d+) ")


def is_counted(text: str) -> bool:
    """Whether a text counts."""
    return _COUNT.search(text) is not None


def is_last(text: str) -> bool:
    """Whether a text counts and has come to the end."""
    found = _COUNT.search(text)
    return found is not None and found[1] == found[2]
