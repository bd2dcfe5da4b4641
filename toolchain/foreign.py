"""Makes text of foreign libraries, programs, files and boards safe to print.

Such text may contain characters that control a terminal (colours, titles, the cursor) or reverse the reading
direction. They are escaped as in Python, `\\x1b` or `\\u202e`, so that they are visible but have no effect.
"""

from __future__ import annotations

import re

LONGEST = 300
"""Characters; some messages hold a whole expression."""

_TAIL = 1 << 14  # bytes to search for the last line
_PREFACE = "Error caught from RPC call:"  # TVM's line before an error from a board
_PLACE = re.compile(r"/onnxruntime_src/\S+:\d+ (?:[^\n]*?\)(?: const)? (?=\S))?")
_NUMBER = re.compile(r"\bT\.(?:u?int|float|bfloat)\d+\((-?[\w.+-]+)\)")
_LINES = re.compile(r"([\n\t]+)")


def first_line(error: BaseException) -> str:
    """Return the line of a library's error that says what is wrong.

    TVM's and onnx's messages begin with it and continue with programs and backtraces; Python's tracebacks
    end with it. Source locations of onnxruntime are removed, and TVM's `T.int64(5)` becomes 5.
    """
    text = _NUMBER.sub(r"\1", _PLACE.sub("", str(error)))
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.endswith(_PREFACE)] or [type(error).__name__]
    if lines[0].startswith("Traceback"):
        return shortened(lines[-1])
    end = next(
        (place for place, line in enumerate(lines) if not line.endswith((":", " and"))), len(lines) - 1
    )
    return shortened(" ".join(lines[: end + 1]))  # a line that ends in a colon says nothing without the next


def last_line(output: bytes) -> str:
    """Return the last line of a program's output, which usually says why it failed."""
    lines = output.rstrip()[-_TAIL:].decode(errors="replace").strip().splitlines()
    return printable(lines[-1].strip()[:LONGEST]) if lines else "it said nothing"


def shortened(text: str) -> str:
    """Return `text` as `printable` does, cut to `LONGEST` characters."""
    return printable(text if len(text) <= LONGEST else text[:LONGEST] + "…")


def printable(text: str) -> str:
    """Return `text` on one line with unprintable characters escaped; a second call changes nothing."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_lines(text: str) -> str:
    """Return `text` with unprintable characters escaped, except line ends and tabs."""
    if text.isprintable():
        return text
    parts = _LINES.split(text.replace("\r\n", "\n"))
    return "".join(part if index % 2 else printable(part) for index, part in enumerate(parts))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # Python's surrogate for an undecodable byte of a file name
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
