"""Build contexts: deterministic tars with what an image needs and nothing else."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchain.errors import ToolchainError
from toolchain.images.registry.archive import add_file

_JUNK = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")


@dataclass(frozen=True)
class Item:
    """A file of a context.

    Attributes
    ----------
    name
        Its path in the context.
    content
        What it holds, or the file that holds it.
    """

    name: str
    content: bytes | Path
    executable: bool = False

    def read(self) -> bytes:
        """Return what it holds."""
        return self.content if isinstance(self.content, bytes) else self.content.read_bytes()


def files_of(folder: Path, prefix: str = "") -> Iterator[Item]:
    """Yield the files of a folder in the order of their names, less what tools leave behind."""
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        if file.is_file() and not any(p in _JUNK or p.startswith(".") for p in name.parts):
            yield Item(f"{prefix}{name.as_posix()}", file, bool(file.stat().st_mode & 0o100))


def digest(items: Iterable[Item]) -> str:
    """Return a digest of names, permissions and contents."""
    total = hashlib.sha256()
    for item in sorted(items, key=lambda i: i.name):
        content = hashlib.sha256(item.read()).hexdigest()
        total.update(f"{item.name} {item.executable} {content}\n".encode())
    return total.hexdigest()


def write_context(target: Path, items: Iterable[Item], folders: Sequence[str]) -> None:
    """Write a context; owners, times and permissions are the same whoever writes it.

    Parameters
    ----------
    folders
        Folders that are there even if they stay empty: `COPY` wants them.
    """
    try:
        with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
            for name in folders:
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
            for item in items:
                _add(archive, item)
    except OSError as error:
        raise ToolchainError(
            f"cannot write the build context {target}: {error}", "free some space"
        ) from error


def _add(archive: tarfile.TarFile, item: Item) -> None:
    mode = 0o755 if item.executable else 0o644
    if isinstance(item.content, bytes):
        add_file(archive, item.name, item.content, mode)
        return
    entry = tarfile.TarInfo(item.name)
    entry.mode = mode
    with item.content.open("rb") as file:
        entry.size = item.content.stat().st_size
        archive.addfile(entry, file)
