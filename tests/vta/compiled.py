"""The machine in software with sanitizers and a `main` of the tests, by a compiler of this machine.

zig, which compiles what boards get, has no address sanitizer.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from tests.fuzz.sanitized import FLAGS, FOLDER, compiler
from toolchain.files.atomic import replacing
from toolchain.runtime.fingerprint import NATIVE, package_folder

_SOURCE = NATIVE / "src"
_OWN = Path(__file__).parent
_WARNINGS = ("-Wall", "-Wextra")
_OPTIONS = ("-std=c++20", "-O1", "-g1", "-fno-sanitize-recover=all", "-D_GLIBCXX_ASSERTIONS", *_WARNINGS)
_DRIVERS = ("file.cc", "text.cc")
_VERB = (*_DRIVERS, "options.cc", "folder.cc")
_ALONE = {
    "call.cc",
    "command.cc",
    "drivers.cc",
    "measure.cc",
    "run.cc",
    "session.cc",
}  # what needs the rest of edge-rt


def verb() -> Path:
    """Return `edge-rt vta` alone."""
    sources = [*sorted(_SOURCE.glob("vta/*.cc")), *(_SOURCE / name for name in _VERB)]
    return _compiled(_OWN / "sanitized.cc", sources)


def drivers() -> Path:
    """Return what tests/vta/board_vta.cc makes of the drivers and of the reader of programs."""
    sources = sorted([*_SOURCE.glob("vta/*.cc"), *_SOURCE.glob("vta/run/*.cc")])
    sources += [_SOURCE / name for name in _DRIVERS]
    return _compiled(_OWN / "board_vta.cc", [path for path in sources if path.name not in _ALONE])


def _compiled(library: Path, sources: list[Path]) -> Path:
    """Return a program that is compiled once for the content that it has, whoever asks for it."""
    dlpack = package_folder("tvm_ffi", "apache-tvm-ffi") / "3rdparty" / "dlpack" / "include"
    command = [compiler(), *_OPTIONS, *FLAGS.split(";"), f"-I{_SOURCE}", f"-I{NATIVE}", f"-I{dlpack}"]
    content = hashlib.sha256(repr(command).encode())
    for path in sorted([library, *_SOURCE.rglob("*.h"), *sources]):
        content.update(path.read_bytes())
    program = FOLDER / f"{library.stem}-{content.hexdigest()[:16]}"
    if not program.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with replacing(program, 0o755) as fresh:
            words = [*command, str(library), *map(str, sources), "-o", str(fresh), "-ldl"]
            subprocess.run(words, check=True, timeout=600)
    return program
