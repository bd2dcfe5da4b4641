"""edge-rt with address and undefined-behaviour sanitizers, by a compiler of this machine.

`python -m tests.fuzz.sanitized` (or `make sanitize`) compiles it into build/sanitized. zig, which compiles
what boards get, has no address sanitizer: g++ or clang++ does it, for this host's architecture.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from toolchain.configuration import settings as config
from toolchain.errors import MissingError
from toolchain.runtime.compile import source_definitions
from toolchain.runtime.fingerprint import NATIVE

FOLDER = Path(__file__).parents[2] / "build" / "sanitized"
PROGRAM = FOLDER / "edge-rt"
# Without -fsanitize=vptr: it wants to know classes that are hidden here.
LAZY_DEVICE = Path(__file__).parents[1] / "runtime" / "lazy_device.cc"
FLAGS = "-fsanitize=address,undefined;-fno-sanitize=vptr"
# A wish for more memory than there is is answered, not a fault; a session ends by _exit: no leaks are sought.
OPTIONS = {
    "ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=0:abort_on_error=1:handle_segv=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",
}


def compiler() -> str:
    """Return g++ or clang++ of this machine.

    Raises
    ------
    MissingError
        There is neither.
    """
    for name in ("g++", "clang++"):
        if found := shutil.which(name):
            return found
    raise MissingError("neither g++ nor clang++ is installed", "apt-get install g++")


def build() -> Path:
    """Compile what has changed since the last time; return the program."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    definitions = {
        "CMAKE_CXX_COMPILER": compiler(),
        "EDGE_SANITIZE": FLAGS,
        **source_definitions(),
        "EDGE_RT_TRIPLE": "sanitized",
        "EDGE_RT_DEVICES": str(LAZY_DEVICE),
    }
    tools = Path(sys.executable).parent
    configure = [str(tools / "cmake"), "-S", str(NATIVE), "-B", str(FOLDER), "-G", "Ninja"]
    settings = [f"-D{key}={value}" for key, value in definitions.items()]
    make = f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"
    subprocess.run([*configure, make, *settings], check=True, stdout=sys.stderr)
    jobs = str(config.settings().jobs)
    subprocess.run(
        [str(tools / "ninja"), "-C", str(FOLDER), "-j", jobs, PROGRAM.name], check=True, stdout=sys.stderr
    )
    return PROGRAM


if __name__ == "__main__":
    print(build())
