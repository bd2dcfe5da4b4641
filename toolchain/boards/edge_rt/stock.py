"""Uploads files named by their content, each once, and removes the least recently used ones."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from toolchain.boards.transport import MOST_REMOVED, RemoteFile, Transport

KEEP_PROGRAMS = 3  # versions of edge-rt on a board, so that two checkouts used in turn keep theirs


def stock(
    transport: Transport, remote: str, content: Path | bytes, *, keep: int, executable: bool = False
) -> str:
    """Upload `content` to `remote`, a path named by its content, unless it is there; return the path.

    A file of that name and size is not checked further, because `put` never leaves a partial file. The
    `keep` most recently used files of the folder stay; others are removed, a limited number in each call.
    """
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    folder, name = str(PurePosixPath(remote).parent), PurePosixPath(remote).name
    there = transport.listing(folder)
    # First: on a small disk there is no room for one version more than are kept.
    transport.remove(*(f"{folder}/{old}" for old in surplus(there, name, keep)))
    if name in there and there[name].size == size:
        transport.touch(remote)
    else:
        transport.put(content, remote, executable=executable)
    return remote


def surplus(there: dict[str, RemoteFile], name: str, keep: int) -> list[str]:
    """Return the names to remove so that `name` and the `keep - 1` other most recently used files stay.

    Their number is limited: a board that reports very many files must not keep the host busy.
    """
    others = sorted((n for n in there if n != name), key=lambda n: there[n].changed, reverse=True)
    return others[keep - 1 :][-MOST_REMOVED:]
