"""Leaves a board as it was: removes the files that came, and keeps those that were there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, cast

from toolchain.boards.edge_rt.install import state_folder
from toolchain.boards.transport import MOST_REMOVED, Transport

FIELD = "acceptance-field"
"""Folder on the board for a release that is installed and removed."""

_UPLOADS = ("lib", "run")  # others upload there, too, while they wait for their turn to measure
_KEPT = frozenset({"measure.lock", "measure.queue"})  # others may measure, or wait for that, by now


def entries(transport: Transport, only_device: str = "") -> dict[str, tuple[str, ...]]:
    """Return the entries of the folders that measurements write to.

    Parameters
    ----------
    only_device
        `Board.only_device`: such a board has its own folder of states.

    Raises
    ------
    ToolchainError
        The board cannot be reached.
    """
    folders = ("bin", *_UPLOADS, state_folder(only_device))
    return {folder: tuple(transport.listing(folder)) for folder in folders}


def remove_what_came(
    transport: Transport,
    before: Mapping[str, tuple[str, ...]],
    uploads: Collection[str],
    only_device: str = "",
) -> None:
    """Remove the entries of these folders that came with a run.

    Parameters
    ----------
    before
        Entries that were there when it began.
    uploads
        Paths that this run, or one that was killed, uploaded: what else came is somebody else's.

    Raises
    ------
    ToolchainError
        The board cannot be reached.
    """
    for folder, now in entries(transport, only_device).items():
        came = sorted(set(now) - set(before.get(folder, ())) - _KEPT)
        paths = [f"{folder}/{name}" for name in came]
        if folder in _UPLOADS:
            paths = [f"{folder}/{name}" for name in sorted(now) if f"{folder}/{name}" in uploads]
        for start in range(0, len(paths), MOST_REMOVED):
            transport.remove(*paths[start : start + MOST_REMOVED])
    transport.remove(FIELD)


def keeping(
    transport: Transport, before: Mapping[str, tuple[str, ...]], note_upload: Callable[[str], None]
) -> Transport:
    """Return a transport that keeps the entries that were there before.

    Uploads make room by removing the least recently used programs and libraries, which may be the user's.

    Parameters
    ----------
    note_upload
        Called with the path of an entry of `lib` or `run` before it is uploaded for the first time.
    """
    return cast(Transport, _Keeping(transport, before, note_upload))


class _Keeping:
    """A transport that removes nothing of what was there; otherwise the one that it was made from."""

    def __init__(
        self,
        transport: Transport,
        before: Mapping[str, tuple[str, ...]],
        note_upload: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._note_upload = note_upload
        self._before = {f"{folder}/{name}" for folder, names in before.items() for name in names}
        self._noted: set[str] = set()

    def put(self, local: Path | bytes, remote: str, *, executable: bool = False) -> None:
        """Upload a file; see `Transport.put`."""
        entry = "/".join(PurePosixPath(remote).parts[:2])
        if entry.startswith(tuple(f"{folder}/" for folder in _UPLOADS)) and entry not in (
            self._noted | self._before
        ):
            self._note_upload(entry)
            self._noted.add(entry)
        self._transport.put(local, remote, executable=executable)

    def remove(self, *remotes: str) -> None:
        """Remove files and folders that were not there before."""
        ours = [remote for remote in remotes if remote not in self._before]
        if ours:
            self._transport.remove(*ours)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
