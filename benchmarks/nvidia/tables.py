"""Writes tables of Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table; nothing without lines."""
    if not lines:
        return ""
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(cell(each) for each in line)} |" for line in (head, rule, *lines))


def cell(text: str) -> str:
    """Return text that stays in its cell."""
    return " ".join(text.replace("|", "\\|").split())
