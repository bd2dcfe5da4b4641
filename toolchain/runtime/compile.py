"""Compiles edge-rt with CMake, ninja and zig, all three from PyPI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from toolchain import __version__
from toolchain.architectures.table import LINUX
from toolchain.configuration import settings as config
from toolchain.errors import MissingError, ToolchainError
from toolchain.linking.zig import zig_cache_environment, zig_program
from toolchain.processes.interrupts import uninterrupted
from toolchain.runtime.fingerprint import (
    GLIBC_FLOOR,
    NATIVE,
    expected_fingerprint,
    package_folder,
    package_version,
)

PROGRAM: str = "edge-rt"
LIBRARY: str = "libedge.so"
# About a minute on two cores; a busy single-core machine may take ten.
_DEADLINE_S = 1800.0
_LAST_LINES = 30
_GRACE_S = 10.0  # from SIGTERM to SIGKILL
# Environment variables that change what CMake and compilers do; the fingerprint does not cover them.
_FOREIGN = ("CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "DESTDIR")


def compile_runtime(
    arch: str, folder: Path, progress: Callable[[str], None], *, zig_cache: Path | None = None
) -> None:
    """Compile edge-rt and libedge.so, stripped, for an architecture.

    Parameters
    ----------
    arch
        Edge-rt's name of the architecture.
    folder
        An empty folder for the build; `PROGRAM` and `LIBRARY` appear in it.
    progress
        Called with a line at the beginning, and one that counts for each step.
    zig_cache
        A folder for zig's own cache; None: inside ours.

    Raises
    ------
    MissingError
        zig, CMake, ninja or TVM's packages are not installed.
    ToolchainError
        The compiler failed, or was still running after half an hour.
    """
    ninja = _tool("ninja")
    progress(f"compiling edge-rt for {arch}: once, for all networks; it takes a few minutes")
    environment = _environment(zig_cache)
    _run(configuration(arch, folder), arch, progress, environment)
    _run([str(ninja), "-C", str(folder), "-j", str(config.settings().jobs)], arch, progress, environment)


def configuration(arch: str, folder: Path) -> list[str]:
    """Return the command that configures the build of edge-rt for an architecture in a folder.

    Raises
    ------
    MissingError
        zig, CMake, ninja or TVM's packages are not installed.
    """
    target = next(row.zig_target for row in LINUX.values() if row.edge_rt == arch)
    definitions = {
        "CMAKE_MAKE_PROGRAM": str(_tool("ninja")),
        "CMAKE_TOOLCHAIN_FILE": str(NATIVE / "zig.cmake"),
        "ZIG": str(zig_program()),
        "ZIG_TARGET": f"{target}.{GLIBC_FLOOR}",
        **source_definitions(),
        "EDGE_RT_TRIPLE": target,
    }
    command = [str(_tool("cmake")), "-S", str(NATIVE), "-B", str(folder), "-G", "Ninja"]
    return [*command, *(f"-D{key}={value}" for key, value in definitions.items())]


def source_definitions() -> dict[str, str]:
    """Return the definitions for edge-rt's CMakeLists.txt that are the same for every architecture."""
    return {
        "TVM_DIR": str(package_folder("tvm", "apache-tvm")),
        "TVM_FFI_DIR": str(package_folder("tvm_ffi", "apache-tvm-ffi")),
        "EDGE_RT_VERSION": __version__,
        "EDGE_RT_FINGERPRINT": expected_fingerprint(),
        "EDGE_RT_TVM": package_version("apache-tvm"),
        "EDGE_RT_TVM_FFI": package_version("apache-tvm-ffi"),
    }


def _tool(name: str) -> Path:
    """Return the path of a program in this Python's environment, else on PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise MissingError(
            f"{name}, which compiles edge-rt, is not installed",
            "pip install 'edge-toolchain[compile]', or the wheel of this version that has edge-rt compiled",
        )
    return Path(found)


def _environment(zig_cache: Path | None) -> dict[str, str]:
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in _FOREIGN and not name.startswith("CMAKE_")
    }
    return {**own, **zig_cache_environment(zig_cache)}


def _end(child: subprocess.Popen[str]) -> None:
    # ninja puts each compiler into its own process group, and kills them when it gets SIGTERM.
    child.terminate()
    try:
        child.wait(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _run(
    argv: Sequence[str], arch: str, progress: Callable[[str], None], environment: Mapping[str, str]
) -> None:
    child: subprocess.Popen[str] | None = None
    last: deque[str] = deque(maxlen=_LAST_LINES)
    overdue = threading.Event()

    def stop() -> None:
        overdue.set()
        if child is not None:
            child.terminate()

    timer = threading.Timer(_DEADLINE_S, stop)
    try:
        with uninterrupted():
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=environment,
                start_new_session=True,  # only this process gets Ctrl-C
            )
        timer.start()
        for line in child.stdout or ():
            last.append(line.rstrip())
            if step := re.match(r"\[(\d+/\d+)\]", line):
                progress(f"compiling edge-rt for {arch}: {step[1]} steps")
        child.wait()
    finally:
        timer.cancel()
        if child is not None:
            if child.returncode is None:
                _end(child)
            if child.stdout is not None:
                child.stdout.close()
    if overdue.is_set():
        raise ToolchainError(
            f"compiling edge-rt for {arch} had not ended after {_DEADLINE_S:g} s and was stopped",
            "run the same command again when the machine is less busy",
        )
    if child.returncode != 0:
        words = "\n".join(line for line in last if line)
        raise ToolchainError(
            f"edge-rt for {arch} does not compile; the last lines of {Path(argv[0]).name}:\n{words}",
            "toolchain doctor",
        )
