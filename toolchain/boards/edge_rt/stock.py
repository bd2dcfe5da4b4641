"""Uploads files that are named by their content: each once, and the least recently used ones are removed."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from toolchain.boards.transport import MOST_REMOVED, RemoteFile, Transport

KEEP_PROGRAMS = 3  # versions of edge-rt on a board: two checkouts in turn don't push each other out


def stock(
    transport: Transport, remote: str, content: Path | bytes, *, keep: int, executable: bool = False
) -> str:
    """Upload `content` to `remote`, a path named by its content, unless it is there; return the path.

    A file of that name and size is taken as it is: files appear whole or not at all. Of the folder's
    files, the `keep` that were used last stay; the others are removed, many of them by and by.
    """
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    folder, name = str(PurePosixPath(remote).parent), PurePosixPath(remote).name
    there = transport.listing(folder)
    if name in there and there[name].size == size:
        transport.touch(remote)
    else:
        transport.put(content, remote, executable=executable)
    transport.remove(*(f"{folder}/{old}" for old in surplus(there, name, keep)))
    return remote


def surplus(there: dict[str, RemoteFile], name: str, keep: int) -> list[str]:
    """Return the names to remove so that `name` and the `keep - 1` others that were used last stay.

    Not all of them where there are many: a board that claims so must keep nobody busy.
    """
    others = sorted((n for n in there if n != name), key=lambda n: there[n].changed, reverse=True)
    return others[keep - 1 :][-MOST_REMOVED:]
