"""Semantic versions (https://semver.org) without build metadata, which has no order."""

from __future__ import annotations

import re
from typing import Self

MOST = 64
"""Longest version in characters."""

_NUMBER = r"(?:0|[1-9][0-9]*)"
_WORD = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_FORM = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_WORD}(?:\.{_WORD})*))?", re.ASCII)


class Version:
    """A version as it is written, with the order of semver's paragraph 11."""

    def __init__(self, text: str) -> None:
        """Read a version.

        Raises
        ------
        ValueError
            `text` is no semantic version, has build metadata, or is longer than 64 characters.
        """
        if len(text) > MOST:
            raise ValueError(f"a version has at most {MOST} characters")
        if "+" in text:
            raise ValueError(f"{text!r} has build metadata, which has no order")
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a semantic version, such as 2.0.0 or 2.1.0-rc.1")
        self.text = text
        *numbers, pre = match.groups()
        words = [] if pre is None else pre.split(".")
        # Numbers sort before words; a version sorts behind its pre-releases.
        self._order = (
            tuple(map(int, numbers)),
            pre is None,
            tuple((not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words),
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Version({self.text!r})"

    def __lt__(self, other: Self) -> bool:
        return self._order < other._order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)
