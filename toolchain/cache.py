"""Lists the content of the cache folder, and removes what this version no longer uses."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from filelock import FileLock, Timeout

from toolchain.boards.emulation.system import base as machines
from toolchain.configuration.settings import cache_dir
from toolchain.errors import ToolchainError
from toolchain.images.catalogue import catalogue
from toolchain.images.debian import bootstrap, system
from toolchain.images.making import wheels
from toolchain.lowering.kernels import store
from toolchain.lowering.modelled import kernel_models
from toolchain.runtime import ARCHES, expected_fingerprint

Kind = Literal["runtime", "objects", "mali", "stubs", "rootfs", "machines", "wheels", "images", "zig"]
_ABANDONED_S = 24 * 3600.0  # no build takes that long, so an older temporary folder was left by a killed one


@dataclass(frozen=True)
class CacheEntry:
    """A folder or file of the cache.

    Attributes
    ----------
    kind
        `runtime`: a compiled edge-rt. `objects`: compiled functions of networks. `mali`: results of the
        Mali's compiler. `stubs`: stub libraries to link against. `rootfs`: file systems of boards and
        images. `machines`: kernels and disks of emulated machines. `wheels`, `images`: inputs of images.
        `zig`: zig's own cache.
    current
        Whether this version of the toolchain can use it.
    """

    kind: Kind
    path: Path
    bytes: int
    current: bool

    @property
    def mib(self) -> float:
        """Size in MiB."""
        return self.bytes / 2**20

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "kind": self.kind,
            "path": str(self.path),
            "size_mib": round(self.mib, 2),
            "current": self.current,
        }


def list_entries() -> list[CacheEntry]:
    """Return the entries of the cache; files of other programs in its folder are left out."""
    return [
        CacheEntry(kind, path, _size(path), _is_current(kind, path))
        for kind in get_args(Kind)
        for path in _paths(kind)
    ]


def prune(*, everything: bool = False, dry_run: bool = False) -> list[CacheEntry]:
    """Remove the entries that this version no longer uses.

    A runtime or a system that another process is making stays.

    Parameters
    ----------
    everything
        Also remove the entries that it uses; they are made again when needed.
    dry_run
        Remove nothing, only return what would be removed.

    Returns
    -------
    list of CacheEntry
        Entries that were removed, or would be.

    Raises
    ------
    ToolchainError
        An entry cannot be removed.
    """
    doomed = (e for e in list_entries() if not e.current or (everything and not _is_temporary(e.path)))
    return [entry for entry in doomed if dry_run or _remove(entry)]


def _paths(kind: Kind) -> Iterator[Path]:
    folder = cache_dir().absolute() / kind
    if folder.is_symlink() or not folder.is_dir():
        return  # a link could lead out of the cache
    if kind == "zig":
        yield folder  # its inner structure belongs to zig
        return
    yield from sorted(path for path in folder.iterdir() if path.suffix != ".lock")


def _is_temporary(path: Path) -> bool:
    return path.name.startswith(".")  # another process is making it, or was killed while doing so


def _is_current(kind: Kind, path: Path) -> bool:
    if _is_temporary(path):
        return time.time() - path.lstat().st_mtime < _ABANDONED_S
    if kind == "runtime":
        return path.name in {f"{expected_fingerprint()}-{arch}" for arch in ARCHES}
    if kind == "objects":
        return path.name == store.fingerprint()
    if kind == "mali":
        return path in {model.cache_folder() for model in kernel_models() if model.cache_folder}
    if kind == "rootfs":
        systems = {system.cached_name(image) for image in catalogue().values() if image.system}
        return path.name in {*systems, bootstrap.cached_name()}
    if kind == "machines":
        return path.name == machines.cached_name()
    if kind == "wheels":
        locks = [lock for image in catalogue().values() if (lock := wheels.lock_of(image))]
        return path.name in {wheels.cached_name(lock) for lock in locks}
    return True


def _size(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    folders = os.walk(path)
    return sum((Path(folder) / name).lstat().st_size for folder, _, names in folders for name in names)


def _remove(entry: CacheEntry) -> bool:
    """Remove an entry; return False if another process is making it."""
    # A process that makes a runtime or a system holds this lock.
    lock = FileLock(entry.path.with_name(f"{entry.path.name}.lock"), timeout=0)
    try:
        with lock if entry.kind in ("runtime", "rootfs", "machines") else nullcontext():
            # Rename first, so that a half-removed runtime is never mistaken for a complete one.
            doomed = entry.path.with_name(f".{entry.path.name.strip('.')}.pruned")
            entry.path.rename(doomed)
            if doomed.is_symlink() or not doomed.is_dir():
                doomed.unlink()
            else:
                shutil.rmtree(doomed)
    except Timeout:
        return False
    except FileNotFoundError:
        return True  # another process removed it
    except OSError as error:
        raise ToolchainError(
            f"cannot remove {entry.path}: {error.strerror}", "look at its permissions"
        ) from error
    return True
