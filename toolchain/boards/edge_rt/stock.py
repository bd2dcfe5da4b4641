"""Files on a board that are named by their content: sent once, the least recently used dropped."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from toolchain.boards.transport import RemoteFile, Transport

KEEP_PROGRAMS = 3  # versions of edge-rt on a board: two checkouts in turn don't push each other out


def stocked(
    transport: Transport, remote: str, content: Path | bytes, *, keep: int, executable: bool = False
) -> str:
    """Make sure that the board has `content` under the content-addressed path `remote`; return it.

    A file of that name and size is taken as it is: files appear whole or not at all. The least
    recently used files of its folder beyond `keep` are removed.
    """
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    folder, name = str(PurePosixPath(remote).parent), PurePosixPath(remote).name
    there = transport.listing(folder)
    if name in there and there[name].size == size:
        transport.touch(remote)
    else:
        transport.put(content, remote, executable=executable)
    for old in surplus(there, name, keep):
        transport.remove(f"{folder}/{old}")
    return remote


def surplus(there: dict[str, RemoteFile], name: str, keep: int) -> list[str]:
    """Return what is too much in a folder that is to keep `name` and the `keep - 1` used last besides."""
    others = sorted((n for n in there if n != name), key=lambda n: there[n].changed, reverse=True)
    return others[keep - 1 :]
