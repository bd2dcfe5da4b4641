"""Numbers of releases in the field: uploads beside `scp`, what an update sends, and a rollout to 200 boards.

What one board does is measured with the real edge-rt (field_board.py). The boards of the rollout are its
installer with a toy network, in folders of this host. `--quick` leaves out the 200 boards, which take four
minutes: each waits 30 s in its health command, since 32 boards in the field have 32 processors, and their
simulations share this host's. `--growth ARCH` only compiles edge-rt with and without what releases need.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.field_board import board_numbers
from benchmarks.upload import MEMORY, measure
from tests.boards.ssh.sshd import sshd
from toolchain.linking.zig import zig_cache_environment
from toolchain.runtime.compile import compile_runtime

SIZES_MIB = (1, 64)
SCALE = ("200", "20", "32", "30")  # boards, of which fail, at once, seconds of the health command


def uploads(folder: Path) -> dict[str, Any]:
    """Return the rates of a file to a real sshd, by its MiB."""
    found = {}
    with sshd(folder / "sshd") as server:
        for mib in SIZES_MIB:
            file = folder / "file"
            file.write_bytes(bytes(range(256)) * 4096 * mib)
            found[f"{mib} MiB"] = measure(server, server.port, file)
    return found


def rollout(folder: Path) -> dict[str, Any]:
    """Return the numbers of a rollout to many boards, measured in a process of its own."""
    argv = [sys.executable, "-m", "tests.rollouts.scale", str(folder), *SCALE]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900, check=True)
    return json.loads(done.stdout)


def growth(folder: Path, arch: str) -> dict[str, int]:
    """Return the bytes of edge-rt, stripped, with and without src/field and libsodium. It takes minutes."""
    compile_runtime(arch, folder, lambda line: print(line, file=sys.stderr))
    without = "edge-rt-without-field"
    environment = {**os.environ, **zig_cache_environment()}
    ninja = Path(sys.executable).parent / "ninja"
    subprocess.run(
        [ninja, "-C", folder, without], env=environment, stdout=sys.stderr, timeout=1800, check=True
    )
    sizes = [(folder / name).stat().st_size for name in ("edge-rt", without)]
    return {"with": sizes[0], "without": sizes[1], "growth": sizes[0] - sizes[1]}


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the 200 boards")
    parser.add_argument("--growth", metavar="ARCH", help="only: how large edge-rt is, such as x86_64")
    given = parser.parse_args()
    where = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        result: dict[str, Any]
        if given.growth:
            result = {"growth": growth(Path(folder), given.growth)}
        else:
            result = {"upload": uploads(Path(folder)), "board": board_numbers(Path(folder))}
            if not given.quick:
                result["rollout"] = rollout(Path(folder))
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
