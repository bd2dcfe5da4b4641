"""Numbers of releases in the field: uploads beside `scp`, what an update sends, and a rollout to 200 boards.

Boards are the installer of edge-rt with a toy network, in folders of this host. `--quick` leaves out the 200
boards, which take four minutes: each waits 30 s in its health command, since 32 boards in the field have 32
processors, and their simulations share this host's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.upload import MEMORY, measure
from tests.boards.ssh.sshd import sshd

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


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the 200 boards")
    quick = parser.parse_args().quick
    where = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        result: dict[str, Any] = {"upload": uploads(Path(folder))}
        if not quick:
            result["rollout"] = rollout(Path(folder))
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
