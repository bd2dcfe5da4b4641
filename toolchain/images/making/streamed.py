"""Follows the engine's output of a build: reports steps as progress, and a failing step as an error."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolchain.errors import ToolchainError
from toolchain.foreign import printable

_LAST_LINES = 20
_LONGEST = 100  # of a step as it is shown


def follow(
    name: str, dockerfile: str, stream: Iterable[Mapping[str, Any]], progress: Callable[[str], None]
) -> set[str]:
    """Read a build to its end; return the short ids of the images that its steps made or used.

    Parameters
    ----------
    dockerfile
        Where it lies, for the error.
    progress
        Called with one line for each step.

    Raises
    ------
    ToolchainError
        A step failed: says which one and what it printed last.
    """
    made: set[str] = set()
    last: deque[str] = deque(maxlen=_LAST_LINES)
    step = "before the first step"
    pending = ""
    for message in stream:
        if "error" in message:
            said = "\n".join(f"  {line}" for line in last)
            raise ToolchainError(
                f"image {name}: {step} failed: {str(message['error']).strip()}"
                + (f"\n{said}" if said else ""),
                f"the step is in {dockerfile}",
            )
        pending += message.get("stream", "")
        *lines, pending = pending.split("\n")
        for line in map(_plain, lines):
            if found := re.match(r"Step (\d+/\d+) : (.*)", line):
                step = f"step {found[1]} ({found[2]})"
                last.clear()
                progress(f"{name}: step {found[1]}: {found[2][:_LONGEST]}")
            elif found := re.fullmatch(r" ---> ([0-9a-f]{12})", line):
                made.add(found[1])
            elif line and not line.startswith(" --->"):
                last.append(line)
    return made


def _plain(line: str) -> str:
    return printable(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line.rpartition("\r")[2] or line.strip("\r")))
