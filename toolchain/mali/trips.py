"""How often the loops of a kernel turn, read from its source."""

from __future__ import annotations

import re

_LOOP = re.compile(r"\bfor\s*\(([^;{}]*);([^;{}]*);([^;{}]*)\)")
_FROM = re.compile(r"(\w+)\s*=\s*(?:\(\w+\))?\s*(\d+)\s*$")
_TO = re.compile(r"^\s*(\w+)\s*<\s*(?:\(\w+\))?\s*(\d+)\s*$")


def trip_counts(source: str) -> list[int | None]:
    """Return how often each `for` turns, in the order of the source; None where that is no constant."""
    return [_turns(*parts) for parts in _LOOP.findall(source)]


def _turns(begin: str, end: str, step: str) -> int | None:
    first, last = _FROM.search(begin), _TO.search(end)
    if first is None or last is None or first[1] != last[1]:
        return None
    name = re.escape(first[1])
    wide = re.search(rf"\b{name}\s*\+=\s*(\d+)", step)
    if wide is None and not re.search(rf"\+\+\s*{name}\b|\b{name}\s*\+\+", step):
        return None
    width = int(wide[1]) if wide else 1
    return max(0, -(-(int(last[2]) - int(first[2])) // width)) if width else None
