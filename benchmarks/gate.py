"""What the gate between clients and servers costs: a candidate of tuning, and a large upload.

A candidate is compiled, then measured on a board; `board` is the second part alone. Both ways take turns in
one run; a ratio is the median of the pairs'. Goal: at most 2 % more for a candidate and an upload.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.runtime import start
from toolchain import runtime
from toolchain.backends.table import backend_for
from toolchain.boards.inventory.lookup import local_board
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.rpc.client import Grant, TrackerClient
from toolchain.rpc.session import connect
from toolchain.tasks.candidate import write_case
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.boards.cases import drawn
from toolchain.tuning.boards.measure import Request, Subject, measure
from toolchain.tuning.builders.builder import LibraryBuilder
from toolchain.tuning.builders.choice import HostCompilers
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.plans.answers import PossibleTimes

ROUNDS = 40
UPLOAD_BYTES = 64 << 20
NETWORK = "zoo:squeezenet_v1.1"
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


def granted(port: int) -> Grant:
    """Return the server, which is free or soon will be."""
    with TrackerClient("127.0.0.1", port) as client:
        grant = client.request("benchmark", 10)
    assert grant  # noqa: S101 - the server is registered
    return grant


def candidate(folder: Path, compilers: HostCompilers) -> Callable[[int], dict[str, float]]:
    """Return what compiles and measures the default of the heaviest task, in ms as tuning does it."""
    board, how = local_board(), TuneOptions()
    model = load_model(NETWORK, ModelOptions())
    backend = backend_for(board.profile, CodeOptions())
    target = backend.target()
    with backend.lower(model, target) as network:
        space = network.space(network.tasks[0])
        chosen = space.candidate(space.default())
        reference = network.reference(network.tasks[0])
    case = write_case(folder, "case", drawn(reference.parameters, 0))

    def ms(port: int) -> dict[str, float]:
        begin = time.perf_counter()
        (built,) = LibraryBuilder(compilers, board.profile, folder).build([chosen])
        assert built.library, built.message  # noqa: S101
        measuring = time.perf_counter()
        request = Request(
            grant=granted(port),
            key="benchmark",
            library=built.library,
            subjects=(Subject(built.function, chosen.parameters, chosen.outputs, chosen.memory),),
            threads=1,
            cluster=target.cpu,
            number=how.number,
            repeat=how.repeat,
            min_repeat_ms=how.min_repeat_ms,
            limit_s=60,
            possible=PossibleTimes(how.repeat, 0, 60),
            timeout_s=60,
            cases=(case,),
        )
        (result,) = measure(request)
        assert result.failure is None, result.message  # noqa: S101
        end = time.perf_counter()
        return {"candidate": (end - begin) * 1e3, "board": (end - measuring) * 1e3}

    return ms


def upload(folder: Path) -> Callable[[int], dict[str, float]]:
    """Return what uploads a large file, in ms."""
    file = folder / "large.so"
    file.write_bytes(bytes(UPLOAD_BYTES))

    def ms(port: int) -> dict[str, float]:
        session = connect(granted(port), "benchmark", 60)
        begin = time.perf_counter()
        session.upload(str(file))
        return {"upload": (time.perf_counter() - begin) * 1e3}

    return ms


def main() -> None:
    """Print one JSON document."""
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
        times: dict[tuple[str, str], list[float]] = defaultdict(list)
        compilers = HostCompilers(1)
        stack.callback(compilers.close)
        for ms in (candidate(folder, compilers), upload(folder)):
            for turn in range(ROUNDS + 1):
                for name in list(ports)[:: 1 if turn % 2 else -1]:
                    for what, took in ms(ports[name]).items():
                        if turn:  # the first one warms up
                            times[what, name].append(took)
    for what in ("candidate", "board", "upload"):
        for name in ports:
            document[f"{what}_{name}_ms"] = round(statistics.median(times[what, name]), 2)
            document[f"{what}_{name}_least_ms"] = round(min(times[what, name]), 2)
        pairs = zip(times[what, "gate"], times[what, "straight"], strict=True)
        document[f"{what}_ratio"] = round(statistics.median(a / b for a, b in pairs), 4)
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
