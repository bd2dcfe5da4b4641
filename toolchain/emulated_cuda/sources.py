"""The C++ of the emulated driver, and the headers with which CUDA's text becomes C++."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from toolchain.runtime.fingerprint import GLIBC_FLOOR, package_version

FOLDER = Path(__file__).parent
DRIVER, HEADERS = FOLDER / "driver", FOLDER / "include"


def digest_of(folders: Iterable[Path], options: Iterable[str]) -> str:
    """Return 32 hexadecimal digits that identify sources, the compiler and its options."""
    digest = hashlib.sha256(f"glibc {GLIBC_FLOOR}, zig {package_version('ziglang')}\n".encode())
    digest.update("\0".join(options).encode())
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(FOLDER).as_posix()} {content}\n".encode())
    return digest.hexdigest()[:32]
