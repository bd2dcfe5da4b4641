"""Atomic writes of files and folders."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolchain.errors import ToolchainError, UsageError

# Reading the umask means setting it, which would disturb other threads later; so read it at import.
_UMASK = os.umask(0)
os.umask(_UMASK)

_FREE = "free some space or choose another folder"
_PERMIT = "choose a folder that you may write to, or change the permissions of this one"
_WAYS_OUT = {
    errno.ENOSPC: _FREE,
    errno.EDQUOT: _FREE,
    errno.EFBIG: _FREE,
    errno.EACCES: _PERMIT,
    errno.EPERM: _PERMIT,
    errno.EROFS: "choose a folder on another file system: this one can only be read",
}


def make_private_folder(path: Path) -> Path:
    """Make a folder with mode 0700, whatever the umask, and return it.

    Missing parents get this mode as well; existing ones keep theirs.

    Raises
    ------
    UsageError
        The folder belongs to another user.
    OSError
        The file system refused.
    """
    make_folder(path)
    status = path.stat()
    if os.getuid() not in (status.st_uid, 0):
        raise UsageError(
            f"{path} belongs to user {status.st_uid}, not to you", "choose another folder, or remove it"
        )
    if status.st_mode & 0o077:
        path.chmod(0o700)
    return path


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents with mode 0700; existing folders keep their mode.

    Raises
    ------
    OSError
        The file system refused.
    """
    for folder in reversed((path, *path.parents)):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_tree(folder: Path) -> None:
    """Sync a folder's files to disk: a synced rename of unsynced files would leave empty files."""
    for where, _, names in os.walk(folder):
        for name in names:
            file = Path(where) / name
            if file.is_symlink() or not file.is_file():
                continue
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        sync_folder(Path(where))


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success sync it and rename it to `path`.

    Parameters
    ----------
    path
        The file to make or replace.
    mode
        Its permissions before the umask is applied.

    Raises
    ------
    ToolchainError
        The file system refused (full, read-only, no such folder); nothing is left behind.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        temporary = Path(name)
        yield temporary
        temporary.chmod(mode & ~_UMASK)  # mkstemp gives 0600
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Check, before long work, that `path` can be written at its end; nothing is made.

    Raises
    ------
    ToolchainError
        The nearest existing path above `path` is not a folder, or cannot be written.
    """
    try:
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise cannot_write(path, error) from error


def write_bytes(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write `data` to `path` atomically; errors and `mode` as of `replacing`."""
    with replacing(path, mode) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str, mode: int = 0o666) -> None:
    """Write `text` to `path` as UTF-8, atomically; errors and `mode` as of `replacing`."""
    write_bytes(path, text.encode(), mode)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on success sync it and rename it to `path`.

    An existing `path` is kept and the new folder dropped: names are digests, so both have the same content.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        yield temporary
        if not path.exists():
            temporary.chmod(0o777 & ~_UMASK)  # mkdtemp gives 0700
            _sync_tree(temporary)
            temporary.rename(path)
            sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def cannot_write(path: Path, error: OSError) -> ToolchainError:
    """Return the error for a `path` that could not be written."""
    reason = error.strerror or str(error)
    way_out = _WAYS_OUT.get(error.errno or 0, "choose another folder")
    return ToolchainError(
        f"cannot write {path}: {reason}; nothing was left half-written",
        f"{way_out}, then run the same command again",
    )
