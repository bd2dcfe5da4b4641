"""What a launch costs through edge-rt and TVM's virtual machine, beside a plain OpenCL program."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu.chain import ITEMS, Chain, write_chain
from toolchain.runtime import ensure_runtime

_SECONDS = 300.0


def launches(count: int, numbers: int, rounds: int, samples: int) -> dict[str, Any]:
    """Measure chains of launches, both programs in turn, with the first OpenCL driver of this machine.

    Parameters
    ----------
    count
        Launches of a chain.
    numbers
        How many numbers each of them adds 1 to.

    Returns
    -------
        The microseconds of a launch by each, at best and in the middle of all samples, what edge-rt adds at
        best, and the ratios.
    """
    program = ensure_runtime("x86_64").program
    times: dict[str, list[float]] = {"edge_rt": [], "plain": []}
    with tempfile.TemporaryDirectory(prefix="edge-benchmark-") as name:
        chain = write_chain(Path(name), count, numbers)
        measured: dict[str, Callable[[], list[float]]] = {
            "edge_rt": lambda: _edge_rt(program, chain, Path(name), samples),
            "plain": lambda: _plain(chain, count, numbers, Path(name), samples),
        }
        for measure in measured.values():
            measure()  # compiles the kernel
        for _ in range(rounds):
            for who, measure in measured.items():
                times[who] += measure()
    each = {who: [ms * 1e3 / count for ms in all_of_it] for who, all_of_it in times.items()}
    best = {who: min(us) for who, us in each.items()}
    middle = {who: statistics.median(us) for who, us in each.items()}
    return {
        "numbers": numbers,
        "best_us": {who: round(us, 2) for who, us in best.items()},
        "median_us": {who: round(us, 2) for who, us in middle.items()},
        "added_us": round(best["edge_rt"] - best["plain"], 2),
        "best_ratio": round(best["edge_rt"] / best["plain"], 3),
        "median_ratio": round(middle["edge_rt"] / middle["plain"], 3),
    }


def _edge_rt(program: Path, chain: Chain, folder: Path, samples: int) -> list[float]:
    arguments = ["bench", str(chain.library), "--input", str(chain.x), "--device", "opencl"]
    arguments += ["--repeat", str(samples), "--state", str(folder / "state")]
    times: list[float] = json.loads(_said([str(program), *arguments], folder))["times_ms"]
    return times


def _plain(chain: Chain, count: int, numbers: int, folder: Path, samples: int) -> list[float]:
    words = [chain.program, chain.source, chain.kernel, count, numbers, ITEMS, samples]
    return [float(line) for line in _said([str(word) for word in words], folder).split()]


def _said(argv: list[str], folder: Path) -> str:
    # The same cache of the driver's for both, and nothing else of the user's.
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "POCL_CACHE_DIR": str(folder / "pocl")}
    ended = subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if ended.returncode:
        raise SystemExit(f"{argv[0]}: {ended.stderr or ended.stdout}")
    return ended.stdout
