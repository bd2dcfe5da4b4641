"""Leaves a board as it was: removes the files that came, and keeps those that were there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from toolchain.boards.edge_rt.install import state_folder
from toolchain.boards.transport import MOST_REMOVED, Transport

FIELD = "acceptance-field"
"""Folder on the board for a release that is installed and removed."""

_FOLDERS = ("bin", "lib", "run")
_REPEATED = ("lib", "run")
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
    return {folder: tuple(transport.listing(folder)) for folder in (*_FOLDERS, state_folder(only_device))}


def entries_before(
    kept: Mapping[str, tuple[str, ...]] | None, now: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the entries that count as having been there.

    Parameters
    ----------
    kept
        Entries that a run noted which was killed and removed nothing; None: there was none. It counts only
        for uploads that every command can repeat: a program may have been provisioned since.
    now
        Entries at present.
    """
    return {**now, **{folder: kept[folder] for folder in _REPEATED if kept and folder in kept}}


def remove_what_came(
    transport: Transport, before: Mapping[str, tuple[str, ...]], only_device: str = ""
) -> None:
    """Remove the entries of these folders that were not there before.

    Raises
    ------
    ToolchainError
        The board cannot be reached.
    """
    for folder, now in entries(transport, only_device).items():
        came = set(now) - set(before.get(folder, ())) - _KEPT
        paths = [f"{folder}/{name}" for name in sorted(came)]
        for start in range(0, len(paths), MOST_REMOVED):
            transport.remove(*paths[start : start + MOST_REMOVED])
    transport.remove(FIELD)


def keeping(transport: Transport, before: Mapping[str, tuple[str, ...]]) -> Transport:
    """Return a transport that keeps the entries that were there before.

    Uploads make room by removing the least recently used programs and libraries, which may be the user's.
    """
    return cast(Transport, _Keeping(transport, before))


class _Keeping:
    """A transport that removes nothing of what was there; otherwise the one that it was made from."""

    def __init__(self, transport: Transport, before: Mapping[str, tuple[str, ...]]) -> None:
        self._transport = transport
        self._before = {f"{folder}/{name}" for folder, names in before.items() for name in names}

    def remove(self, *remotes: str) -> None:
        """Remove files and folders that were not there before."""
        ours = [remote for remote in remotes if remote not in self._before]
        if ours:
            self._transport.remove(*ours)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
