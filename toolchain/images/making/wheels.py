"""Fetches the wheels for images by this machine's pip, whose configuration applies."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

from toolchain.configuration.settings import cache_dir, settings
from toolchain.errors import MissingError, ToolchainError
from toolchain.files import atomic
from toolchain.files.turns import one_at_a_time
from toolchain.images.catalogue import Image
from toolchain.images.certificates import ensure_authorities
from toolchain.images.contents import PYTHON, runtime_lock
from toolchain.linking.zig import run

FOLDER = "wheels"  # in the cache
_LOCK = "requirements.txt"
_GLIBC = range(36, 4, -1)  # minor versions of glibc 2 that Debian 12 can serve
_SECONDS = 1800.0  # half a gigabyte, over a slow line too


def lock_of(image: Image) -> str | None:
    """Return the text of the lock file of the wheels that an image adds; None if it adds none.

    For an image on plain Debian these are the entries of this package's `requirements.lock` that the package
    needs to run; for an image on another one, the `requirements.lock` in its folder.
    """
    if not image.stands_on:
        return runtime_lock()
    file = image.path / "requirements.lock"
    return file.read_text() if image.folder and file.is_file() else None


def cached_name(lock: str) -> str:
    """Return the name of a lock's folder in the cache."""
    return hashlib.sha256(lock.encode()).hexdigest()[:16]


def ensure_wheels(image: Image, progress: Callable[[str], None]) -> Path | None:
    """Make sure that an image's wheels are in the cache; return their folder, None if it adds none.

    Raises
    ------
    MissingError
        This Python has no pip.
    ToolchainError
        A wheel cannot be fetched, or its hash is not the lock's.
    """
    lock = lock_of(image)
    if lock is None:
        return None
    folder = cache_dir() / FOLDER / cached_name(lock)
    with one_at_a_time(Path(f"{folder}.lock"), _SECONDS, f"fetching {folder}"):
        if not folder.is_dir():
            progress(f"{image.name}: fetching its wheels, once")
            with atomic.replacing_folder(folder) as fresh:
                _download(image, lock, fresh)
    return folder


def _download(image: Image, text: str, folder: Path) -> None:
    lock = folder / _LOCK
    lock.write_text(text)
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in _GLIBC]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
    index, trusted = settings().package_index, ensure_authorities()
    done = run(
        [
            *(sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
            *("--only-binary=:all:", "--implementation=cp", "--abi=cp311", "--abi=abi3", "--abi=none"),
            f"--python-version={PYTHON}",
            *(f"--platform={platform}" for platform in platforms),
            *([f"--cert={trusted}"] if trusted else []),
            *("--dest", str(folder), "--requirement", str(lock)),
        ],
        _SECONDS,
        {"PIP_INDEX_URL": index} if index else None,  # there may be a password in it, which `ps` would show
    )
    lock.unlink()
    if done.returncode == 0:
        return
    if "No module named pip" in done.output:
        raise MissingError(f"{sys.executable} has no pip, which fetches wheels", "python -m ensurepip")
    raise ToolchainError(
        f"pip cannot fetch the wheels of the image {image.name}:\n{done.last_lines()}",
        "pip's own configuration applies; package_index and tls_authorities in toolchain.toml add to it",
    )
