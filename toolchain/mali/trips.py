"""Reads the trip counts of a kernel's loops, and the share of work items that reach them, from its source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from toolchain.devices.kernel import Kernel
from toolchain.mali.guards import Guards

_FROM = re.compile(r"(\w+)\s*=\s*(?:\(\w+\))?\s*(\d+)\s*$")
_TO = re.compile(r"^\s*(\w+)\s*<\s*(?:\(\w+\))?\s*(\d+)\s*$")
_HEAD = re.compile(r"\b(for|if|else)\b|[{};]")


@dataclass
class _Open:
    """A statement or block that is open at a position of the source.

    Attributes
    ----------
    word
        `for`, `if` or `else`; empty for another block, such as a function's.
    share
        Share of the work items reaching it that enter it.
    block
        Whether it has braces; else it ends with its first statement.
    """

    word: str
    share: float
    block: bool = False


@dataclass(frozen=True)
class Loop:
    """A `for` loop of the source.

    Attributes
    ----------
    turns
        Trip count, None if it is not a constant.
    share
        Share of the work items in the enclosing loop or kernel that conditions let reach this loop.
    """

    turns: int | None
    share: float = 1.0


def loops_of(kernel: Kernel) -> list[Loop]:
    """Return the loops of a kernel in the order of its source."""
    guards = Guards(kernel)
    opened: list[_Open] = []
    found: list[Loop] = []
    last_if = 1.0
    for word, head in _words(kernel.source):
        if word == "for":
            share = 1.0
            for outer in reversed(opened):
                if outer.word == "for":
                    break
                share *= outer.share
            found.append(Loop(_turns(*head.split(";")) if head.count(";") == 2 else None, share))
            opened.append(_Open(word, 1.0))
        elif word == "if":
            opened.append(_Open(word, guards.share(head)))
        elif word == "else":
            opened.append(_Open(word, 1.0 - last_if))
        elif word == "{":
            if opened and not opened[-1].block and opened[-1].word:
                opened[-1].block = True
            else:
                opened.append(_Open("", 1.0, block=True))
        else:  # the end of a block or statement also ends every enclosing statement without braces
            if word == "}" and opened:
                last_if = opened.pop().share
            while opened and not opened[-1].block:
                last_if = opened.pop().share
    return found


def _words(source: str) -> Iterator[tuple[str, str]]:
    """Yield the tokens `for`, `if`, `else`, braces and semicolons; the first two with their parentheses."""
    at = 0
    while found := _HEAD.search(source, at):
        at = found.end()
        word, head = found[0], ""
        if word in ("for", "if"):
            begin = source.index("(", at) + 1
            at = _closing(source, begin)
            head = source[begin : at - 1]
        yield word, head


def _closing(source: str, begin: int) -> int:
    """Return the index after the parenthesis that closes the one before `begin`."""
    depth = 1
    for found in re.finditer(r"[()]", source[begin:]):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return begin + found.end()
    return len(source)


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
