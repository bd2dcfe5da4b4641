"""edge-rt with address and undefined-behaviour sanitizers, by a compiler of this machine.

`python -m tests.fuzz.sanitized` (or `make sanitize`) compiles it into build/sanitized. zig, which compiles
what boards get, has no address sanitizer: g++ or clang++ does it, for this host's architecture.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from tests.howto.page import blocks
from toolchain.configuration import settings as config
from toolchain.errors import MissingError
from toolchain.runtime.compile import source_definitions
from toolchain.runtime.fingerprint import NATIVE

_TOOLS = Path(sys.executable).parent
NINJA = _TOOLS / "ninja"
FOLDER = Path(__file__).parents[2] / "build" / "sanitized"
PROGRAM = FOLDER / "edge-rt"
# Without -fsanitize=vptr: it wants to know classes that are hidden here.
LAZY_DEVICE = Path(__file__).parents[1] / "runtime" / "lazy_device.cc"
HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "add-a-device.md"
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


def _turn() -> FileLock:
    """Return what to hold for as long as the folder is written, or must not be: tests run side by side."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FileLock(FOLDER.with_suffix(".lock"), timeout=1800)


def build() -> Path:
    """Compile what has changed since the last time; return the program."""
    with _turn():
        return _build()


def configure() -> Path:
    """Configure the build without compiling anything; return its folder."""
    with _turn():
        _configure()
        return FOLDER


def _build() -> Path:
    _configure()
    jobs = str(config.settings().jobs)
    ninja = [str(NINJA), "-C", str(FOLDER), "-j", jobs, PROGRAM.name]
    subprocess.run(ninja, check=True, stdout=sys.stderr, env=_environment())
    return PROGRAM


def _environment() -> dict[str, str]:
    """Return the environment of tests, whoever asks: with other flags all would be compiled again."""
    return {**os.environ, "EDGE_WARNINGS_ARE_ERRORS": "1"}


def _configure() -> None:
    definitions = {
        "CMAKE_CXX_COMPILER": compiler(),
        "EDGE_SANITIZE": FLAGS,
        **source_definitions(),
        "EDGE_RT_TRIPLE": "sanitized",
        "EDGE_RT_DEVICES": f"{LAZY_DEVICE};{_device_of_the_howto()}",
        "CMAKE_MAKE_PROGRAM": str(NINJA),
    }
    command = [str(_TOOLS / "cmake"), "-S", str(NATIVE), "-B", str(FOLDER), "-G", "Ninja"]
    settings = [f"-D{key}={value}" for key, value in definitions.items()]
    subprocess.run([*command, *settings], check=True, stdout=sys.stderr, env=_environment())


def without(kinds: Sequence[str], program: Path) -> None:
    """Link what `build` has compiled as another program, without the objects of some kinds of devices."""
    with _turn():
        _link_without(kinds, program)


def _link_without(kinds: Sequence[str], program: Path) -> None:
    ask = [str(NINJA), "-C", str(FOLDER), "-t", "commands", PROGRAM.name]
    last = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    link = [word for word in shlex.split(last) if word not in (":", "&&")]
    for kind in kinds:
        objects = [word for word in link if word.startswith(f"CMakeFiles/device_{kind}.dir/")]
        if not objects:
            raise AssertionError(f"no object of {kind} in {last}")
        link = [word for word in link if word not in objects]
    link[link.index("-o") + 1] = str(program)
    subprocess.run(link, check=True, cwd=FOLDER)


def _device_of_the_howto() -> Path:
    """Write the device that docs/howto/add-a-device.md shows as a file, if it is another than there is."""
    (code,) = blocks(HOWTO.name, "cpp")
    file = FOLDER / "npu.cc"
    if not file.exists() or file.read_text() != code:
        file.write_text(code)
    return file


if __name__ == "__main__":
    print(build())
