"""Folders with OpenCL drivers of the tests' own, for LD_LIBRARY_PATH."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from toolchain.architectures.table import LINUX
from toolchain.linking.zig import zig_cache_environment, zig_program
from toolchain.runtime.fingerprint import GLIBC_FLOOR

STUB, FAKE = (Path(__file__).with_name(f"{name}_driver.c") for name in ("stub", "fake"))


def stub(folder: Path, *options: str, source: Path = STUB) -> Path:
    """Compile a driver as `libOpenCL.so.1` into a folder; return the folder."""
    folder.mkdir()
    # As edge-rt is compiled: zig has made what it needs for that already.
    target = f"{LINUX['x86_64'].zig_target}.{GLIBC_FLOOR}"
    command = [str(zig_program()), "cc", "-target", target, "-Os", "-shared", "-fPIC", *options, str(source)]
    environment = {**os.environ, **zig_cache_environment()}
    subprocess.run([*command, "-o", str(folder / "libOpenCL.so.1")], check=True, env=environment, timeout=300)
    return folder
