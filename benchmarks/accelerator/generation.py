"""What code generation takes on this host, each time in a process that has just started."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import Any

GOAL_CPU_S = 10.0
BOARD = "pynq"
_SECONDS = 900.0


def generations(name: str, again: int) -> dict[str, Any]:
    """Return seconds of the processors for a region's program alone, and for a whole build."""
    alone = [_alone(name) for _ in range(again)]
    builds = [_build(name) for _ in range(again)]
    return {
        "kind": "measured on this host: seconds of the processors, children included",
        "network": name,
        "goal_cpu_s": GOAL_CPU_S,
        "region_alone": {part: round(median(each[part] for each in alone), 2) for part in alone[0]},
        "build": {
            "board": BOARD,
            "cpu_s": round(median(cpu for cpu, _clock in builds), 2),
            "clock_s": round(median(clock for _cpu, clock in builds), 2),
        },
    }


def _alone(name: str) -> dict[str, float]:
    """Return the parts of a process that makes a region's program."""
    words = [sys.executable, "-m", "benchmarks.accelerator.generation", name]
    ended = subprocess.run(words, check=True, timeout=_SECONDS, capture_output=True, text=True)
    parts: dict[str, float] = json.loads(ended.stdout)
    return parts


def _build(name: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="edge-benchmark-") as folder:
        words = ["build", name, "--board", BOARD, "--device", "vta", "--dtype", "int8", "-o", folder]
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "toolchain", *words],
            check=True,
            timeout=_SECONDS,
            stdout=subprocess.DEVNULL,
        )
        clock, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock


def _parts(name: str) -> dict[str, float]:
    """Return the seconds of this process's processor, from its start."""
    from benchmarks.accelerator.regions import CONFIG, quantised, region_of
    from toolchain.vta.compiling.assemble import assemble
    from toolchain.vta.compiling.blob import blob_of

    times = [0.0, time.process_time()]
    model = quantised(name, "mse")
    times.append(time.process_time())
    region = region_of(model)
    times.append(time.process_time())
    blob_of(assemble(region, CONFIG))
    times.append(time.process_time())
    names = ("imports", "quantising", "dividing", "program")
    parts = {part: after - before for part, before, after in zip(names, times, times[1:], strict=False)}
    return parts | {"all": times[-1]}


if __name__ == "__main__":
    print(json.dumps(_parts(sys.argv[1])))
