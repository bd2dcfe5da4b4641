"""What foreign libraries and files say, cut to one line."""

from __future__ import annotations

LONGEST = 300
"""Characters; some messages hold a whole expression."""


def first_line(error: Exception) -> str:
    """Return the first line of `error` that says something; TVM's and onnx's go on with a traceback."""
    lines = (line.strip() for line in str(error).splitlines())
    found = next((line for line in lines if line and not line.startswith("Traceback")), type(error).__name__)
    return printable(found if len(found) <= LONGEST else found[:LONGEST] + "…")


def printable(text: str) -> str:
    """Return `text` with control characters replaced: names in a hostile file may hold any."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
