"""Writes unpacked packages as an image's layer, without what it can do without; always the same bytes."""

from __future__ import annotations

import tarfile
from collections.abc import Container, Mapping, Sequence
from typing import IO

from toolchain.images.registry.archive import CHANGED, add_file


def copy_packages(
    packages: IO[bytes], target: tarfile.TarFile, dropped: Sequence[str], made: Container[str]
) -> None:
    """Copy a tar stream of a file system into that of a layer.

    Parameters
    ----------
    dropped
        Paths to leave out; of one that ends in `/` all that lies below it, too.
    made
        Paths that the caller adds itself.

    Raises
    ------
    tarfile.TarError
        The stream is no tar.
    """
    with tarfile.open(fileobj=packages, mode="r|") as source:
        for entry in source:
            entry.name = entry.name.removeprefix("./").rstrip("/")
            if entry.name in ("", ".") or entry.name in made or _is_dropped(entry.name, dropped):
                continue
            entry.linkname = entry.linkname.removeprefix("./") if entry.islnk() else entry.linkname
            entry.mtime, entry.uname, entry.gname = CHANGED, "", ""
            entry.pax_headers = {}
            target.addfile(entry, source.extractfile(entry) if entry.isreg() else None)


def write_system(
    packages: IO[bytes],
    target: tarfile.TarFile,
    dropped: Sequence[str],
    folders: Mapping[str, tuple[int, int]],
    links: Mapping[str, str],
    files: Mapping[str, tuple[int, str]],
) -> None:
    """Copy packages, then add what replaces the results of their scripts, which do not run.

    Parameters
    ----------
    dropped
        As of `copy_packages`.
    folders, links, files
        Mode and owner, target, and mode and content of each, by path.

    Raises
    ------
    tarfile.TarError
        The stream is no tar.
    """
    copy_packages(packages, target, dropped, {*folders, *links, *files})
    for name, (mode, owner) in folders.items():
        add_folder(target, name, mode, owner)
    for name, where in links.items():
        add_link(target, name, where)
    for name, (mode, text) in files.items():
        add_file(target, name, text.encode(), mode, changed=CHANGED)


def add_folder(target: tarfile.TarFile, name: str, mode: int = 0o755, owner: int = 0) -> None:
    """Add a folder; `owner` is both its user's and its group's number."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid, entry.mtime = tarfile.DIRTYPE, mode, owner, owner, CHANGED
    target.addfile(entry)


def add_link(target: tarfile.TarFile, name: str, where: str) -> None:
    """Add a symbolic link."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mtime = tarfile.SYMTYPE, where, CHANGED
    target.addfile(entry)


def _is_dropped(name: str, dropped: Sequence[str]) -> bool:
    return any(name == d.rstrip("/") or (d.endswith("/") and name.startswith(d)) for d in dropped)
