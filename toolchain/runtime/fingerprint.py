"""The fingerprint of edge-rt: a digest of everything it is compiled from."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from toolchain.errors import MissingError

NATIVE = Path(__file__).parent.parent / "native"
# Old enough for the vendor images of rk3399 and pynq boards (Ubuntu 18.04).
GLIBC_FLOOR = "2.27"
_PACKAGES = ("apache-tvm", "apache-tvm-ffi", "ziglang")


def package_folder(module: str, package: str) -> Path:
    """Return the folder of an installed package without importing it.

    Raises
    ------
    MissingError
        The package is not installed.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise _missing(package)
    return Path(spec.submodule_search_locations[0])


def package_version(package: str) -> str:
    """Return the version of an installed package.

    Raises
    ------
    MissingError
        The package is not installed.
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise _missing(package) from None


def _missing(package: str) -> MissingError:
    return MissingError(
        f"{package}, which edge-rt is compiled from, is not installed", f"pip install {package}"
    )


@lru_cache(maxsize=1)
def expected_fingerprint() -> str:
    """Return the fingerprint of the runtime that this toolchain compiles, the same for every architecture.

    Returns
    -------
    str
        32 hexadecimal digits, a digest of our sources (with the compiler flags), the versions of the
        packages whose sources and compiler are used, and the glibc floor. `edge-rt info` prints it too.

    Raises
    ------
    MissingError
        One of the packages is not installed.
    """
    return digest_sources()


def digest_sources() -> str:
    """Compute the fingerprint of the current sources; `expected_fingerprint` is cached at its first call."""
    digest = hashlib.sha256(f"glibc {GLIBC_FLOOR}\n".encode())
    for package in _PACKAGES:
        digest.update(f"{package} {package_version(package)}\n".encode())
    for path in sorted(path for path in NATIVE.rglob("*") if path.is_file()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(NATIVE).as_posix()} {content}\n".encode())
    return digest.hexdigest()[:32]
