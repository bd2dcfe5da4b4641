"""How fast a file gets to a board, as a ratio to `scp` on the same link; the goal is 0.9.

The board is a real sshd on loopback, reached directly and through a proxy that lets as much through
as a board's network does. Its files lie in memory: the link is measured, not this machine's disk.
Both take turns, so that what else the machine does slows both.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.boards.ssh.proxy import proxy
from tests.boards.ssh.sshd import Sshd, sshd
from toolchain.boards.ssh.transport import SshTransport

RUNS = 5
MEMORY = Path("/dev/shm")  # noqa: S108
MIB = {"loopback": 128, "100 Mbit/s": 24}
RATE = {"loopback": None, "100 Mbit/s": 100e6 / 8}


def seconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def scp(server: Sshd, port: int, file: Path) -> None:
    """Copy `file` to the board with the OpenSSH client."""
    options = [f"-oUserKnownHostsFile={server.folder}/known_hosts", "-oStrictHostKeyChecking=yes"]
    (server.folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {server.host_key}\n")
    target = f"{server.address().user}@127.0.0.1:{server.root}/theirs"
    options += ["-i", str(server.identity), "-P", str(port)]
    argv = ["scp", "-q", "-F", "none", *options, str(file), target]
    subprocess.run(argv, check=True, timeout=600)


def measure(server: Sshd, port: int, file: Path) -> dict[str, float]:
    """Return the median rates in MB/s and their ratio; both connect anew each time."""
    size = file.stat().st_size / 1e6
    ours, theirs = [], []

    def put() -> None:
        board = SshTransport(server.address(port), str(server.root))
        board.put(file, "ours")
        board.close()

    for _ in range(RUNS):
        ours.append(size / seconds(put))
        theirs.append(size / seconds(lambda: scp(server, port, file)))
    mine, other = statistics.median(ours), statistics.median(theirs)
    return {"ours_mb_s": round(mine, 1), "scp_mb_s": round(other, 1), "ratio": round(mine / other, 2)}


def main() -> None:
    """Print one JSON document: per link the rates and their ratio."""
    result = {}
    where = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as folder, sshd(Path(folder) / "sshd") as server:
        file = Path(folder) / "file"
        for link, mib in MIB.items():
            file.write_bytes(os.urandom(1 << 20) * mib)
            with proxy(server.port) as between:
                between.rate = RATE[link]
                result[link] = measure(server, between.port if between.rate else server.port, file)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
