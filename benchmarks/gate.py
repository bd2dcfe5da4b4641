"""What the gate between clients and servers costs: sessions as tuning makes them, and a large upload.

Both ways take turns in one run; the ratios are of the medians. Goal: at most 2 % more.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.runtime import start
from toolchain import runtime
from toolchain.rpc.client import TrackerClient
from toolchain.rpc.session import connect

ROUNDS = 20
UPLOAD_BYTES = 64 << 20
# Tuning's libraries have about this size; the slowest thing it does with one is not the gate's business.
LIBRARY_BYTES = 200_000
WITHOUT = """
import toolchain.rpc.tracker as tracker
class Straight:
    def __init__(self, name, connect, lied):
        self.port = connect.args[0][1]
    def close(self): pass
tracker.Gate = Straight
tracker.main()
"""


@contextmanager
def tracker(*arguments: str) -> Iterator[int]:
    """Run a tracker; yield its port."""
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout  # noqa: S101 - it has a pipe
        try:
            yield json.loads(process.stdout.readline())["port"]
        finally:
            process.terminate()


def session_ms(port: int, file: Path, times: int) -> float:
    """Return the ms of a session: its begin, facts, uploads, a few small answers, its end."""
    begin = time.perf_counter()
    with TrackerClient("127.0.0.1", port) as client:
        grant = client.request("benchmark", 10)
    assert grant  # noqa: S101 - the server is registered
    session = connect(grant, "benchmark", 60, threads=1)
    for _ in range(times):
        session.get_function("edge.info")()
    session.upload(str(file))
    del session
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    """Print one JSON document of medians and ratios."""
    program = runtime.ensure_runtime("x86_64").program
    document: dict[str, float] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ports = {
            "gate": stack.enter_context(tracker("-m", "toolchain.rpc.tracker")),
            "straight": stack.enter_context(tracker("-c", WITHOUT)),
        }
        for name, port in ports.items():
            server, _ = start(program, port, str(folder / name))
            stack.callback(server.wait)
            stack.callback(server.terminate)
        for what, size, rounds in (("session", LIBRARY_BYTES, ROUNDS), ("upload", UPLOAD_BYTES, ROUNDS // 2)):
            file = folder / f"{what}.so"
            file.write_bytes(bytes(size))
            times: dict[str, list[float]] = {name: [] for name in ports}
            for turn in range(rounds + 1):
                for name in list(ports)[:: 1 if turn % 2 else -1]:
                    took = session_ms(ports[name], file, 10 if what == "session" else 0)
                    if turn:
                        times[name].append(took)
            for name in ports:
                document[f"{what}_{name}_ms"] = round(statistics.median(times[name]), 2)
                document[f"{what}_{name}_least_ms"] = round(min(times[name]), 2)
            pairs = zip(times["gate"], times["straight"], strict=True)
            document[f"{what}_ratio"] = round(statistics.median(a / b for a, b in pairs), 4)
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
