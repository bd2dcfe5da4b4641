"""Objects that were compiled before, by what they were made from.

They can be made again: one that cannot be read, or is not what was written, is not there, and a folder that
cannot be written costs no more than time. No lock is needed: equal names are equal files.
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
# All that decides what an object looks like, apart from what it is the object of.
_SOURCES = ("backends", "devices", "lowering", "models", "targets", "tvm_compat.py")
_PACKAGES = ("apache-tvm", "apache-tvm-ffi")
_DIGEST = hashlib.sha256().digest_size


def fingerprint() -> str:
    """Return the name of what compiles here: 32 hexadecimal digits of sources and of TVM's version.

    The sources are this package's, and those of plugins, whose dialects and machines decide too.
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
        for path in sorted(found.rglob("*.py")) if found.is_dir() else [found]:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(_PACKAGE).as_posix()} {content}\n".encode())
    return digest.hexdigest()[:32]


class ObjectStore:
    """The objects that this version of the toolchain compiled.

    Attributes
    ----------
    refused
        Why objects could not be kept; empty when all is well.
    """

    def __init__(self) -> None:
        self.root = config.cache_dir() / KIND
        self.folder = self.root / fingerprint()
        self.refused = ""
        self._written = False

    def get(self, key: str) -> bytes | None:
        """Return an object; None where there is none, or none that is whole."""
        path = self.folder / key
        try:
            data = path.read_bytes()
        except OSError:
            return None
        found = data[_DIGEST:]
        if hashlib.sha256(found).digest() != data[:_DIGEST]:
            return None
        with suppress(OSError):
            os.utime(path)  # the oldest go first
        return found

    def put(self, key: str, data: bytes) -> None:
        """Keep an object, if that can be done."""
        if self.refused:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=".")
            try:
                with os.fdopen(handle, "wb") as file:  # not synced: the digest tells what a power cut left
                    file.write(hashlib.sha256(data).digest() + data)
                Path(name).replace(self.folder / key)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            self._written = True
        except OSError as error:
            self.refused = f"{self.folder}: {error.strerror or error}"

    def prune(self, limit: int = LIMIT_BYTES) -> None:
        """Remove what was not used for longest, so that no more than `limit` bytes are kept."""
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
            with suppress(OSError):  # it is in use
                folder.rmdir()
