"""Caches compiled objects by what they were made from.

They can be made again: an unreadable or damaged object is a cache miss, and a folder that cannot be written
costs only time. No lock is needed, since files of equal names are equal.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from toolchain.configuration import settings as config
from toolchain.devices.plugins import plugin_files
from toolchain.runtime.fingerprint import package_version

KIND = "objects"
LIMIT_BYTES = 512 << 20
_PACKAGE = Path(__file__).parent.parent.parent
# Everything that affects an object, besides its recipe.
_SOURCES = ("backends", "devices", "lowering", "models", "targets", "testbeds", "tvm_compat.py")
_SUFFIXES = (".py", ".h", ".cuh")  # headers: those that kernels are compiled with
_PACKAGES = ("apache-tvm", "apache-tvm-ffi")
_DIGEST = hashlib.sha256().digest_size


def fingerprint() -> str:
    """Return 32 hexadecimal digits that identify the sources and the version of TVM that compile here.

    The sources are those of this package and of plugins, whose dialects and machines affect objects, too.
    """
    plugins = plugin_files()
    if not plugins:
        return _own_fingerprint()
    digest = hashlib.sha256(_own_fingerprint().encode())
    for path in plugins:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]


@cache
def _own_fingerprint() -> str:
    digest = hashlib.sha256()
    for package in _PACKAGES:
        digest.update(f"{package} {package_version(package)}\n".encode())
    for name in _SOURCES:
        found = _PACKAGE / name
        files = (path for path in found.rglob("*.*") if path.suffix in _SUFFIXES)
        for path in sorted(files) if found.is_dir() else [found]:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(_PACKAGE).as_posix()} {content}\n".encode())
    return digest.hexdigest()[:32]


class ObjectStore:
    """The cache of objects compiled by this version of the toolchain.

    Attributes
    ----------
    refused
        Why an object could not be written; empty if all were.
    """

    def __init__(self) -> None:
        self.root = config.cache_dir() / KIND
        self.folder = self.root / fingerprint()
        self.refused = ""
        self._written = False

    def get(self, key: str) -> bytes | None:
        """Return an object; None if it is missing or damaged."""
        path = self.folder / key
        try:
            data = path.read_bytes()
        except OSError:
            return None
        found = data[_DIGEST:]
        if hashlib.sha256(found).digest() != data[:_DIGEST]:
            return None
        with suppress(OSError):
            os.utime(path)  # marks it as used, since `prune` removes the least recently used
        return found

    def put(self, key: str, data: bytes) -> None:
        """Write an object; a failure is only noted in `refused`."""
        if self.refused:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=".")
            try:
                with os.fdopen(handle, "wb") as file:  # not synced: the digest shows damage by a power cut
                    file.write(hashlib.sha256(data).digest() + data)
                Path(name).replace(self.folder / key)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            self._written = True
        except OSError as error:
            self.refused = f"{self.folder}: {error.strerror or error}"

    def prune(self, limit: int = LIMIT_BYTES) -> None:
        """Remove the least recently used objects until at most `limit` bytes are left."""
        if not self._written:
            return
        found = []
        for path in self.root.glob("*/*"):
            with suppress(OSError):  # another process removed it
                status = path.lstat()
                found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _when, size, _path in found)
        for _when, size, path in sorted(found):
            if total <= limit:
                break
            with suppress(OSError):
                path.unlink()
                total -= size
        for folder in self.root.iterdir():
            with suppress(OSError):  # not empty
                folder.rmdir()
