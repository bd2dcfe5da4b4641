"""Compiles the emulated driver, `libcuda.so.1`, and caches it."""

from __future__ import annotations

import platform
from pathlib import Path

from toolchain.architectures.architecture import Architecture
from toolchain.architectures.table import LINUX
from toolchain.configuration import settings as config
from toolchain.emulated_cuda.sources import DRIVER, HEADERS, digest_of
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.files.scratch import scratch_folder
from toolchain.files.turns import one_at_a_time
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.runtime.fingerprint import GLIBC_FLOOR

NAME = "libcuda.so.1"
ARCHITECTURES = ("x86_64", "aarch64")
"""Names of the architectures it runs on."""

_HERE = platform.machine()  # the same names
_DEADLINE_S = 1800.0  # usually takes 5 s; the first link for an architecture makes zig build libc++
_COMPILE = (
    *("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"),
    *("-Wall", "-Wextra", "-Werror"),
)
# -Os chooses which libc++ zig links: the one that edge-rt has made it build.
_LINK = ("-Os", "-s", "-shared", "-Wl,-soname,libcuda.so.1", "-Wl,-z,relro", "-Wl,-z,now")


def ensure_emulated_cuda(architecture: str = _HERE) -> Path:
    """Return the path of the emulated driver for an architecture; compile it if it is not in the cache.

    Parameters
    ----------
    architecture
        Name of the architecture that the driver is to run on; this machine's, unless another is given.

    Raises
    ------
    UsageError
        It does not run on this architecture.
    MissingError
        zig is not installed.
    ToolchainError
        The compiler failed, the disk is full, or another process has been compiling it too long.
    """
    if architecture not in ARCHITECTURES:
        raise UsageError(
            f"the emulated CUDA driver does not run on {architecture}",
            f"it runs on: {', '.join(ARCHITECTURES)}",
        )
    digest = digest_of((DRIVER, HEADERS), (architecture, *_COMPILE, *_LINK))
    folder = config.cache_dir() / "emulated-cuda" / f"{digest}-{architecture}"
    driver = folder / NAME
    if not driver.is_file():
        lock = folder.parent / f"{folder.name}.lock"
        with one_at_a_time(lock, _DEADLINE_S, "compiling the emulated CUDA driver"):
            if not driver.is_file():
                _compile(LINUX[architecture], driver)
    return driver


def _compile(architecture: Architecture, driver: Path) -> None:
    target = ("-target", f"{architecture.zig_target}.{GLIBC_FLOOR}")
    with scratch_folder() as folder, atomic.replacing(driver, 0o777) as made:
        unity, linked = folder / "driver.o", folder / NAME
        for arguments in (
            (*_COMPILE, f"-I{HEADERS}", "-c", str(DRIVER / "unity.cc"), "-o", str(unity)),
            (*_LINK, str(unity), "-o", str(linked), "-lpthread", "-ldl"),
        ):
            done = run_zig(["c++", *target, *arguments], _DEADLINE_S, zig_cache_environment())
            if done.returncode != 0:
                raise ToolchainError(
                    f"the emulated CUDA driver does not compile: {done.last_lines()}", "toolchain doctor"
                )
        made.write_bytes(linked.read_bytes())
