"""Compiles the installer without TVM, and the recorder, by zig."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from tests.conftest import CACHE
from toolchain.architectures.table import LINUX
from toolchain.linking.zig import zig_cache_environment, zig_program
from toolchain.runtime.fingerprint import GLIBC_FLOOR, NATIVE

HERE = Path(__file__).parent / "installer"
_TOOLS = Path(sys.executable).parent
# Seconds; a load of 20 has made ten minutes too few.
_DEADLINE_S = 1800


@lru_cache
def installer(arch: str = "x86_64") -> Path:
    """Return the program for an architecture, compiled if its sources have changed."""
    sources = sorted(
        path
        for root in (HERE, NATIVE)
        for path in root.rglob("*")
        if path.is_file() and path.suffix in {".c", ".cc", ".h", ".txt", ".cmake"}
    )
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:20]
    parent = Path(CACHE) / "tests" / "installer"
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / f"{arch}-{digest}"
    target = next(row.zig_target for row in LINUX.values() if row.edge_rt == arch)
    with FileLock(folder.with_suffix(".lock"), timeout=_DEADLINE_S):
        if not folder.exists():
            # Moved when it is whole: CMake refuses a folder that another checkout has begun.
            with TemporaryDirectory(dir=parent, prefix="building-") as new:
                _compile(Path(new, folder.name), f"{target}.{GLIBC_FLOOR}")
                Path(new, folder.name).rename(folder)
    return folder / "installer"


def faults() -> Path:
    """Return the library that makes a disk full or read-only."""
    return installer().with_name("faults.so")


def recorder(arch: str = "x86_64") -> Path:
    """Return the library to preload for an architecture."""
    return installer(arch).with_name("record.so")


def _compile(folder: Path, target: str) -> None:
    environment = {**os.environ, **zig_cache_environment()}
    for command in (
        [
            str(_TOOLS / "cmake"),
            *("-S", str(HERE), "-B", str(folder), "-G", "Ninja"),
            f"-DCMAKE_MAKE_PROGRAM={_TOOLS / 'ninja'}",
            f"-DCMAKE_TOOLCHAIN_FILE={NATIVE / 'zig.cmake'}",
            f"-DZIG={zig_program()}",
            f"-DZIG_TARGET={target}",
        ],
        [str(_TOOLS / "ninja"), "-C", str(folder)],
        *(
            [
                *(str(zig_program()), "cc", f"--target={target}", "-shared", "-fPIC", "-O1"),
                *(str(HERE / f"{name}.c"), "-o", str(folder / f"{name}.so"), "-ldl"),
            ]
            for name in ("record", "faults")
        ),
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_DEADLINE_S)
        assert done.returncode == 0, done.stdout + done.stderr
