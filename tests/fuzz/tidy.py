"""What clang-tidy says of edge-rt's sources: `python -m tests.fuzz.tidy`, which is a part of `make sanitize`.

It reads them as they are compiled with sanitizers, without compiling them: seconds, where that takes minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz import sanitized
from toolchain.configuration import settings as config

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "build" / "tidy" / "bin" / "clang-tidy"
CONFIG = Path(__file__).with_name("clang-tidy.yaml")
_DEADLINE_S = 1800
# libstdc++'s own std::stable_sort calls what C++17 deprecated.
_OWN_CALLS = "--extra-arg=-Wno-deprecated-declarations"
# TVM's sources and libsodium's are their authors' matter.
_FOREIGN = ("/tvm.dir/", "/libsodium/")


def findings() -> list[str]:
    """Return what clang-tidy finds in our sources, and what it cannot read; a line each."""
    folder = sanitized.configure()
    listed = subprocess.run(
        [sanitized.NINJA, "-C", folder, "-t", "compdb"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    entries = [
        entry
        for entry in json.loads(listed.stdout)
        if entry["file"].endswith((".c", ".cc", ".cxx"))
        and not any(part in entry["file"] for part in _FOREIGN)
    ]
    (folder / "compile_commands.json").write_text(json.dumps(entries))

    def read(entry: dict[str, str]) -> list[str]:
        file = Path(entry["directory"], entry["file"])
        done = subprocess.run(
            [PROGRAM, "--quiet", f"--config-file={CONFIG}", _OWN_CALLS, "-p", folder, file],
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
        )
        lines = [line for line in done.stdout.splitlines() if ": error: " in line or ": warning: " in line]
        return lines or ([f"{file}: {done.stderr}"] if done.returncode != 0 else [])

    with ThreadPoolExecutor(config.settings().jobs) as pool:
        return sorted({line for lines in pool.map(read, entries) for line in lines})


if __name__ == "__main__":
    found = findings()
    print("\n".join(found) or "clang-tidy: nothing found")
    sys.exit(1 if found else 0)
