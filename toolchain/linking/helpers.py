"""Functions of the Arm run-time ABI, which are linked into libraries whose kernels call them.

zig's compiler_rt has them too, but in one object with its own memcpy and expf, which would replace the
board's (see `native/aeabi.cc`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from toolchain.architectures.architecture import Architecture
from toolchain.configuration import settings as config
from toolchain.errors import ToolchainError
from toolchain.files import atomic
from toolchain.linking.symbols import object_symbols
from toolchain.linking.zig import run_zig, zig_cache_environment

SOURCE = Path(__file__).parent.parent / "native" / "aeabi.cc"
# The core of the Zynq, our oldest: later cores run its code too.
_FLAGS = ("-mcpu=cortex_a9", "-std=c++20", "-O2", "-fPIC", "-ffreestanding", "-fno-sanitize=all", "-g0")
_DEADLINE_S = 120.0  # usually takes 0.2 s; a cold disk must read zig (180 MB) first


def ensure_helpers(arch: Architecture, objects: Sequence[Path]) -> tuple[Path, ...]:
    """Return the object with the helpers if `objects` call one, else nothing; it is compiled once and cached.

    Raises
    ------
    ToolchainError
        The helpers could not be compiled, or an object cannot be read.
    """
    if not arch.helpers:
        return ()
    helpers = _compile(arch)
    called = object_symbols([helpers]).defined & object_symbols(objects).undefined
    return (helpers,) if called else ()


def _compile(arch: Architecture) -> Path:
    key = hashlib.sha256(SOURCE.read_bytes() + repr(_FLAGS).encode()).hexdigest()[:16]
    folder = config.cache_dir() / "stubs" / f"{arch.zig_target}-helpers-{key}"
    if not folder.is_dir():
        with atomic.replacing_folder(folder) as temporary:
            made = str(temporary / "aeabi.o")
            arguments = ["c++", "-target", arch.zig_target, *_FLAGS, "-c", str(SOURCE), "-o", made]
            done = run_zig(arguments, _DEADLINE_S, zig_cache_environment())
            if done.returncode != 0:
                raise ToolchainError(
                    f"cannot compile {SOURCE} for {arch.zig_target}: {done.last_lines()}",
                    "toolchain cache prune, then run the same command again",
                )
    return folder / "aeabi.o"
