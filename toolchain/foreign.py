"""What foreign libraries, programs and files say, cut to one line."""

from __future__ import annotations

LONGEST = 300
"""Characters; some messages hold a whole expression."""

_PREFACE = "Error caught from RPC call:"  # of what a board's side raised, on a line of its own


def first_line(error: BaseException) -> str:
    """Return the line of a library's error that says what is wrong.

    TVM's and onnx's messages begin with it and go on with programs and backtraces; Python's tracebacks
    end with it.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.endswith(_PREFACE)] or [type(error).__name__]
    return shortened(lines[-1] if lines[0].startswith("Traceback") else lines[0])


def last_line(output: bytes) -> str:
    """Return what a program said last, which is why it failed."""
    lines = output.decode(errors="replace").strip().splitlines()
    return printable(lines[-1].strip()[:LONGEST]) if lines else "it said nothing"


def shortened(text: str) -> str:
    """Return `text` without control characters, and its beginning alone where it is long."""
    return printable(text if len(text) <= LONGEST else text[:LONGEST] + "…")


def printable(text: str) -> str:
    """Return `text` with control characters replaced: names in a hostile file may hold any."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
