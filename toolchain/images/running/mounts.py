"""Bind mounts: folders of this host that a container sees under the same paths."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from toolchain.configuration.settings import cache_dir, configuration, data_dir, state_dir
from toolchain.errors import UsageError
from toolchain.events.log import events_folder
from toolchain.files.atomic import cannot_write

# What an image has there is needed by every program in it. Whatever lies below the second ones, too.
_OWN = ("/", "/bin", "/etc", "/lib", "/lib64", "/opt", "/sbin", "/tmp", "/usr")  # noqa: S108
_OWN_TREES = ("/dev", "/opt/edge-toolchain", "/opt/venv", "/proc", "/sys")


@dataclass(frozen=True)
class Mount:
    """A file or folder of this host; its path is the same in the container."""

    path: Path
    writable: bool = False


def workspace() -> Path:
    """Return the folder of `toolchain.toml`, else the current one."""
    file = configuration().file
    return (file.parent if file else Path.cwd()).absolute()


def mounts_for(reads: Iterable[Path], writes: Iterable[Path]) -> list[Mount]:
    """Return the mounts of a step: the workspace, our folders, and those named on its command line.

    Only `writes`, records, cache and event logs are writable.

    Parameters
    ----------
    reads
        Files to read. For a file outside the workspace its folder is mounted, which may have a network's
        weights. The home folder has keys, so of it only the file and its weights are mounted.
    writes
        Folders to write.

    Raises
    ------
    UsageError
        A mount would hide a folder that the container needs.
    """
    here = workspace()
    mounts = [_allowed(here, False)]
    if state_dir().exists():
        _see(mounts, state_dir().absolute())
    for folder in (cache_dir(), data_dir(), events_folder(), *writes):
        _write(mounts, folder)
    for file in reads:
        plain, real = _plain(file), file.resolve()
        for path in dict.fromkeys((plain, real)):
            if _is_own(path.parent):
                _see(mounts, path)
            elif _holds_home(path.parent):
                for part in (path, *_weights_of(path)):
                    _see(mounts, part)
            else:
                _see(mounts, path.parent)
    return mounts


@contextmanager
def ensure_folders(mounts: Iterable[Mount]) -> Iterator[None]:
    """Make missing writable folders; at the end remove those that stayed empty."""
    created: list[Path] = []
    for mount in mounts:
        if not mount.writable:
            continue
        try:
            missing = [folder for folder in (mount.path, *mount.path.parents) if not folder.exists()]
            mount.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(mount.path, error) from error
        created += missing
    try:
        yield
    finally:
        for folder in sorted(created, reverse=True):
            with suppress(OSError):  # it is used
                folder.rmdir()


@contextmanager
def folder_in_cache(prefix: str) -> Iterator[Path]:
    """Yield a folder in the cache for a step's files, and remove it afterwards.

    The daemon may not see other temporary folders.

    Raises
    ------
    ToolchainError
        The cache cannot be written.
    """
    place = cache_dir().absolute() / "images"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(place, error) from error
    with tempfile.TemporaryDirectory(dir=place, prefix=prefix) as folder:
        yield Path(folder)


def _see(mounts: list[Mount], path: Path) -> None:
    if _over(mounts, path) is None:
        mounts.append(_allowed(path, False))


def _write(mounts: list[Mount], folder: Path) -> None:
    plain = _plain(folder)
    # A link in a folder that is mounted leads there as it does here.
    path = plain if _over(mounts, plain) is None else folder.resolve()
    outer = _over(mounts, path)
    if outer is None or not outer.writable:
        mounts[:] = [mount for mount in mounts if mount.path != path]  # Docker takes each path once
        mounts.append(_allowed(path, True))


def _over(mounts: list[Mount], path: Path) -> Mount | None:
    """Return the innermost mount that contains a path, None if no mount contains it."""
    outer = [mount for mount in mounts if path.is_relative_to(mount.path)]
    return max(outer, key=lambda mount: len(mount.path.parts), default=None)


def _plain(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - links stay as they were typed


def _is_own(path: Path) -> bool:
    return str(path) in _OWN or any(path.is_relative_to(tree) for tree in _OWN_TREES)


def _holds_home(folder: Path) -> bool:
    """Whether a folder is the user's home folder, or contains it."""
    try:
        home = Path.home()
    except RuntimeError:  # this user has none
        return False
    return any(path.is_relative_to(folder) for path in (home, home.resolve()))


def _weights_of(file: Path) -> list[Path]:
    """Return the files beside a network's that may have its weights, such as `net.onnx.data`, `net.data`."""
    begins = (file.name, f"{file.stem}.")
    try:
        parts = [part for part in file.parent.iterdir() if part.name.startswith(begins) and part != file]
    except OSError:  # a folder that others may pass through and not list
        return []
    return sorted(part for part in parts if part.is_file())


def _allowed(path: Path, writable: bool) -> Mount:
    if _is_own(path):
        raise UsageError(
            f"a container has a folder {path} of its own, so it cannot be handed this host's",
            "work in another folder, or add --engine host",
        )
    return Mount(path, writable)
