"""What it costs to build networks of hundreds of small functions, by phase, in CPU time.

    make bench-compiling                                       tables on stdout
    make bench-compiling BENCH="--networks deepcut"            some of them
    make bench-compiling BENCH="--board rk3399"                for another board class

Each network is built in a process of its own with an empty cache: once by that process alone, whose phases
are told apart, and once with one more process, as a user with two cores does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.families.graph import Net  # noqa: E402
from benchmarks.families.unrolled import UNROLLED  # noqa: E402

_KERNELS = "toolchain.lowering.kernels"
_NETWORK = "toolchain.backends.packed.network"
PHASES = {
    "load": ["toolchain.models.load:load_model"],
    "reference": ["toolchain.building.build:reference_outputs"],
    "fuse": ["toolchain.lowering.fused:fuse", "toolchain.lowering.fused:extract_tasks"],
    "decide": ["toolchain.building.build:decide_task"],
    "plan": [f"{_NETWORK}.rewrite:{name}" for name in ("plan", "share_repeated", "_Rewriter.run")],
    "name": [f"{_KERNELS}.kernels:pickled"],
    "generate": [
        f"{_KERNELS}.compile:unpickled",
        f"{_NETWORK}.recipe:Computed.function",
        f"{_NETWORK}.recipe:Moved.function",
    ],
    "TIR passes": [f"{_KERNELS}.compile:lower"],
    "LLVM": [f"{_KERNELS}.compile:compiled"],
    "object": [f"{_KERNELS}.compile:Compiled.part"],
    "link": [
        "toolchain.lowering.fused:lower_fused",
        f"{_KERNELS}.kernels:Kernels._embedded",
        "toolchain.building.build:link_library",
        "toolchain.building.build:write_bundle",
    ],
}
"""Phase -> what is called for it; what is called within belongs to its own phase."""
OTHER = "import, rest"


class Clock:
    """Sums this process's CPU time by phase, inner phases left out of outer ones."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._open = [OTHER]
        self._since = 0.0  # the process's beginning

    @contextmanager
    def phase(self, name: str) -> Any:
        """Count what happens within for a phase."""
        self._turn()
        self._open.append(name)
        self.calls[name] += 1
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def _turn(self) -> None:
        now = time.process_time()
        self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def watch(self, place: str, name: str) -> None:
        """Count the calls of a function, `module:name` or `module:class.name`, for a phase."""
        module, _colon, path = place.partition(":")
        owner = import_module(module)
        *outer, last = path.split(".")
        for each in outer:
            owner = getattr(owner, each)
        function: Callable[..., Any] = getattr(owner, last)

        @wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            with self.phase(name):
                return function(*arguments, **options)

        setattr(owner, last, timed)


def build_here(path: Path, board: str) -> dict[str, Any]:
    """Build a network in this process; return what it took."""
    from toolchain.imports.tvm_import import import_tvm

    import_tvm()
    import_module("toolchain.backends.packed.backend")
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.building.build import build
    from toolchain.models.load import load_model
    from toolchain.models.options import ModelOptions

    clock = Clock()
    if os.environ["TOOLCHAIN_JOBS"] == "1":
        for name, places in PHASES.items():
            for place in places:
                clock.watch(place, name)
    begun = time.monotonic()
    model = load_model(str(path), ModelOptions())
    result = build(model, find_target(board), None, path.parent / "out")
    with clock.phase("end"):
        wall = time.monotonic() - begun
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "functions": len(result.decisions),
        "compiled": clock.calls["object"],
        "seconds": dict(clock.seconds),
        "here": time.process_time(),
        "children": children.ru_utime + children.ru_stime,
        "wall": wall,
        "library": result.library_sha256,
    }


def measured(name: str, board: str, jobs: int) -> dict[str, Any]:
    """Build a network in a process of its own, with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        network = UNROLLED[name]
        net = Net(name, network.shape, tokens=network.tokens)
        path.write_bytes(net.model(network.define(net)).SerializeToString())
        environment = {
            **os.environ,
            "TOOLCHAIN_CACHE_DIR": f"{folder}/cache",
            "TOOLCHAIN_JOBS": str(jobs),
        }
        command = [sys.executable, __file__, "--here", str(path), "--board", board]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, timeout=1800)
        return dict(json.loads(done.stdout))


def table(rows: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """Return the measurements as two tables of Markdown."""
    heads = [
        "network",
        "functions",
        "compiled",
        "CPU s",
        "ms a function",
        "CPU s by two",
        "first of two",
        "wall s",
    ]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " --- |" * (len(heads) - 1)]
    for name, (alone, both) in rows.items():
        total, two = (each["here"] + each["children"] for each in (alone, both))
        counted = f"| {name} | {alone['functions']} | {alone['compiled']} | {total:.1f} "
        each = 1e3 * total / alone["functions"]
        lines.append(f"{counted}| {each:.0f} | {two:.1f} | {both['here']:.1f} | {both['wall']:.1f} |")
    phases = [*PHASES, OTHER]
    lines += ["", f"| ms a function | {' | '.join(phases)} |", f"| --- |{' --- |' * len(phases)}"]
    for name, (alone, _both) in rows.items():
        own = [1e3 * alone["seconds"].get(phase, 0) / alone["functions"] for phase in phases]
        lines.append(f"| {name} | {' | '.join(f'{each:.1f}' for each in own)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(UNROLLED))
    parser.add_argument("--board", default="x86_64")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(json.dumps(build_here(given.here, given.board)))
        return
    found = {name: tuple(measured(name, given.board, jobs) for jobs in (1, 2)) for name in given.networks}
    print(table(found))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
