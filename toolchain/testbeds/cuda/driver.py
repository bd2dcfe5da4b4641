"""Compiles the emulated driver, `libcuda.so.1`, and caches it."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterable
from pathlib import Path

from toolchain.architectures.architecture import Architecture
from toolchain.architectures.table import LINUX
from toolchain.configuration import settings as config
from toolchain.devices.kind import DriverFile
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.files.scratch import scratch_folder
from toolchain.files.turns import one_at_a_time
from toolchain.foreign import shortened
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.runtime.fingerprint import GLIBC_FLOOR, package_version

# The C++ of the emulated driver, and the headers with which CUDA's text becomes C++.

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
        Name of the architecture that the driver runs on; default: this machine's.

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
    with scratch_folder() as folder, atomic.replacing(driver, 0o777) as temporary:
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
        temporary.write_bytes(linked.read_bytes())


# Compiles the text of CUDA kernels for the emulated driver: to a shared object of the host's own code.

_KERNELS_DEADLINE_S = 600.0  # usually takes 1 to 3 s
OPTIONS = (
    *("-x", "c++", "-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"),
    *("-ffp-contract=off", "-fno-strict-aliasing", "-nostdlib++", "-shared", "-s", "-w"),
    # What zig adds by itself needs a runtime of its own; the checks that follow call our headers.
    "-fno-sanitize=all",
    *("-Xclang", "-fsanitize=thread,array-bounds,alignment,integer-divide-by-zero"),
    *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
)
_KERNEL = re.compile(
    r'extern "C" __global__ void (?:__launch_bounds__\((\d+)[^)]*\)\s+)?(\w+)\s*\([^;{]*\)\s*\{'
)
_DYNAMIC = re.compile(
    r"extern __shared__ (?:(?:alignas|__align__)\s*\(\s*\d+\s*\)\s+)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;"
)
_ERROR = re.compile(r"(?m)^(?:kernels\.cu:)?(\d*):?.*?\berror: (.*)$")


def compile_emulated(source: str, architecture: Architecture) -> bytes:
    """Compile CUDA C++ for the emulated driver; return the shared object.

    Parameters
    ----------
    source
        Complete text of the kernels of a unit.
    architecture
        Architecture of the machine that the driver runs on.

    Raises
    ------
    MissingError
        zig is not installed.
    UsageError
        The emulated driver does not run on this architecture.
    ToolchainError
        The compiler rejects the source, or had not ended at the deadline.
    """
    if architecture.name not in ARCHITECTURES:
        raise UsageError(
            f"the emulated CUDA driver does not run on {architecture.name}",
            f"it runs on: {', '.join(ARCHITECTURES)}",
        )
    with scratch_folder() as folder:
        text, library = folder / "unit.cc", folder / "unit.so"
        text.write_text(unit_of(source))
        target = f"{architecture.zig_target}.{GLIBC_FLOOR}"
        command = ["c++", "-target", target, *OPTIONS, f"-I{HEADERS}", str(text), "-o", str(library), "-lm"]
        done = run_zig(command, _KERNELS_DEADLINE_S, zig_cache_environment())
        if done.returncode != 0:
            match = _ERROR.search(done.output)
            reason = f"line {match[1]}: {match[2]}" if match and match[1] else done.last_lines()
            raise ToolchainError(
                f"clang cannot compile a kernel for the emulated driver: {shortened(reason)}"
            )
        return library.read_bytes()


def kernel_compiler() -> str:
    """Return the name and version of the compiler that `compile_emulated` calls."""
    return f"ziglang {package_version('ziglang')}"


def unit_of(source: str) -> str:
    """Return the C++ of a unit: a prelude, the text of its kernels, and their descriptions.

    Each kernel has its shared memory in its own section. Line numbers of errors are those of `source`.
    """
    kernels = [(match[2], match[1] or "0") for match in _KERNEL.finditer(source)]
    pieces = ['#include "edge_emulated_cuda.h"', *(f"EDGE_KERNEL_SHARED({name})" for name, _ in kernels)]
    plain = _DYNAMIC.sub(r"constexpr edge::DynamicShared<\1> \2{};", source)
    done, line = 0, 1
    for match in _KERNEL.finditer(plain):
        before = plain[done : match.start()]
        pieces += [f'#line {line} "kernels.cu"', before]
        pieces += ["#undef EDGE_SHARED", f'#define EDGE_SHARED "edge_shared_{match[2]}"']
        line += before.count("\n")
        done = match.start()
    described = " ".join(f"EDGE_KERNEL({name}, {threads})" for name, threads in kernels)
    pieces += [f'#line {line} "kernels.cu"', plain[done:], f"EDGE_UNIT({described})", ""]
    return "\n".join(pieces)


DRIVER_FILE = DriverFile(ensure_emulated_cuda, "EDGE_CUDA_DRIVER", compile_emulated, kernel_compiler)
"""The test bed's driver, which the row of CUDA in `toolchain.devices` names."""
