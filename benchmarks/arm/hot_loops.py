"""The hot loops of a compiled network or function: multiply-accumulates, spills, LLVM's model of the A72.

    python -m benchmarks.arm.hot_loops FILE [--core cortex-a72] [--json]

FILE is an object, a library, or a tar from `toolchain build --format tar`. Fails where a loop spills vectors.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tarfile
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.arm import tables
from benchmarks.arm.failure import ArmError
from benchmarks.arm.loops import hot_loops
from benchmarks.arm.model import CYCLES_PER_FMA, Judged, judged


def judged_file(file: Path, core: str) -> list[Judged]:
    """Return the hot loops of a file."""
    if not tarfile.is_tarfile(file):
        return [judged(loop, {}, core) for loop in hot_loops(file)]
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(file, folder, "tar")  # ours
        return [judged(loop, {}, core) for part in Path(folder).glob("lib*.o") for loop in hot_loops(part)]


def main() -> int:
    """Print the loops; 1 where one spills, or where they cannot be read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--core", default="", help=f"a model of {', '.join(CYCLES_PER_FMA)}; default: none")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        loops = judged_file(given.file, given.core)
    except (ArmError, OSError) as error:
        print(f"benchmarks/arm: {error}", file=sys.stderr)
        return 1
    print(json.dumps([asdict(loop) for loop in loops], indent=2) if given.json else tables.loops(loops))
    return int(any(loop.vector_spills for loop in loops))


if __name__ == "__main__":
    sys.exit(main())
