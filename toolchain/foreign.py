"""What foreign libraries, programs, files and boards say, fit to be shown.

Any of them may hold characters that a terminal obeys (colours, titles, a moved cursor) or that turn the
reading direction around. Those are shown as Python writes them, `\\x1b` or `\\u202e`: what is there can be
seen, and does nothing.
"""

from __future__ import annotations

import re

LONGEST = 300
"""Characters; some messages hold a whole expression."""

_TAIL = 1 << 14  # bytes in which the last line is looked for
_PREFACE = "Error caught from RPC call:"  # of what a board's side raised, on a line of its own
_PLACE = re.compile(r"/onnxruntime_src/\S+:\d+ (?:[^\n]*?\)(?: const)? (?=\S))?")
_NUMBER = re.compile(r"\bT\.(?:u?int|float|bfloat)\d+\((-?[\w.+-]+)\)")
_LINES = re.compile(r"([\n\t]+)")


def first_line(error: BaseException) -> str:
    """Return the line of a library's error that says what is wrong.

    TVM's and onnx's messages begin with it and go on with programs and backtraces; Python's tracebacks
    end with it. onnxruntime's place and signature in its source are left out, and `T.int64(5)` of TVM's is 5.
    """
    text = _NUMBER.sub(r"\1", _PLACE.sub("", str(error)))
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.endswith(_PREFACE)] or [type(error).__name__]
    return shortened(lines[-1] if lines[0].startswith("Traceback") else lines[0])


def last_line(output: bytes) -> str:
    """Return what a program said last, which is why it failed."""
    lines = output.rstrip()[-_TAIL:].decode(errors="replace").strip().splitlines()
    return printable(lines[-1].strip()[:LONGEST]) if lines else "it said nothing"


def shortened(text: str) -> str:
    """Return `text` as `printable` does, and its beginning alone where it is long."""
    return printable(text if len(text) <= LONGEST else text[:LONGEST] + "…")


def printable(text: str) -> str:
    """Return `text` on one line, with whatever is not printable escaped; doing it twice changes nothing."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_lines(text: str) -> str:
    """Return `text` with its line ends and tabs as they are, and all else as `printable` does."""
    if text.isprintable():
        return text
    parts = _LINES.split(text.replace("\r\n", "\n"))
    return "".join(part if index % 2 else printable(part) for index, part in enumerate(parts))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte of a file's name that is no text
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
