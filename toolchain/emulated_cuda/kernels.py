"""Compiles the text of CUDA kernels for the emulated driver: to a shared object of the host's own code."""

from __future__ import annotations

import re

from toolchain.architectures.architecture import Architecture
from toolchain.emulated_cuda.driver import ARCHITECTURES
from toolchain.emulated_cuda.sources import HEADERS
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import shortened
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.runtime.fingerprint import GLIBC_FLOOR

_DEADLINE_S = 600.0  # usually takes 1 to 3 s
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
        text, made = folder / "unit.cc", folder / "unit.so"
        text.write_text(unit_of(source))
        target = f"{architecture.zig_target}.{GLIBC_FLOOR}"
        command = ["c++", "-target", target, *OPTIONS, f"-I{HEADERS}", str(text), "-o", str(made), "-lm"]
        done = run_zig(command, _DEADLINE_S, zig_cache_environment())
        if done.returncode != 0:
            found = _ERROR.search(done.output)
            said = f"line {found[1]}: {found[2]}" if found and found[1] else done.last_lines()
            raise ToolchainError(f"clang cannot compile a kernel for the emulated driver: {shortened(said)}")
        return made.read_bytes()


def unit_of(source: str) -> str:
    """Return the C++ of a unit: the text of its kernels between what makes it C++ and what describes them.

    Each kernel has its shared memory in a section of its own. Lines of errors are those of `source`.
    """
    kernels = [(found[2], found[1] or "0") for found in _KERNEL.finditer(source)]
    pieces = ['#include "edge_emulated_cuda.h"', *(f"EDGE_KERNEL_SHARED({name})" for name, _ in kernels)]
    plain = _DYNAMIC.sub(r"constexpr edge::DynamicShared<\1> \2{};", source)
    done, line = 0, 1
    for found in _KERNEL.finditer(plain):
        before = plain[done : found.start()]
        pieces += [f'#line {line} "kernels.cu"', before]
        pieces += ["#undef EDGE_SHARED", f'#define EDGE_SHARED "edge_shared_{found[2]}"']
        line += before.count("\n")
        done = found.start()
    described = " ".join(f"EDGE_KERNEL({name}, {threads})" for name, threads in kernels)
    pieces += [f'#line {line} "kernels.cu"', plain[done:], f"EDGE_UNIT({described})", ""]
    return "\n".join(pieces)
