"""Reads small files that somebody hands over."""

from __future__ import annotations

from pathlib import Path

from toolchain.errors import UsageError
from toolchain.files.plain import open_plain


def read_limited(path: Path, most: int, what: str, made_by: str = "") -> bytes:
    """Return the content of a file of at most `most` bytes; `made_by` tells how such a file is made.

    Raises
    ------
    UsageError
        It is missing, unreadable, not a plain file, or larger.
    """
    try:
        with open_plain(path) as file:
            data = file.read(most + 1)
    except OSError as error:
        hint = f"give the file that holds {what}" + (f"; {made_by}" if made_by else "")
        raise UsageError(f"cannot read {what} {path}: {error.strerror}", hint) from error
    if len(data) > most:
        raise UsageError(f"{path} has more than {most} bytes, too many for {what}", "give another file")
    return data
