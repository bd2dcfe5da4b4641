"""Parses the listing of a folder on a board, as `scripts.LISTING` prints it."""

from __future__ import annotations

import re

from toolchain.answers import lie, shown
from toolchain.boards.transport import MOST_ENTRIES, RemoteFile, too_many

MOST_LISTING = 4 * 2**20
"""Limit of a listing in bytes: enough for tens of thousands of entries; our folders have tens."""

_ENTRY = re.compile(r"([0-9]{1,19}) (-?[0-9]{1,19}) ([^/]+)")


def parse_listing(text: bytes, board: str, folder: str) -> dict[str, RemoteFile]:
    """Return a folder's entries by name.

    Lines of another form are ignored: they belong to names with a line break.

    Raises
    ------
    CheckError
        The listing has more bytes or entries than any folder of ours, or a name is `.` or `..`.
    """
    what = f"the listing of its folder {folder}"
    if len(text) > MOST_LISTING:
        raise lie(board, what, f"it has more than {MOST_LISTING} bytes", of_system=True)
    found = {}
    for line in text.decode(errors="replace").splitlines():
        if match := _ENTRY.fullmatch(line):
            if match[3] in (".", ".."):
                raise lie(board, what, f"{shown(match[3])} is no entry", of_system=True)
            found[match[3]] = RemoteFile(int(match[1]), float(match[2]))
            if len(found) > MOST_ENTRIES:
                raise lie(board, what, too_many("it", len(found)), of_system=True)
    return found
