"""One engine with one network, in a process of its own: runs blocks of inferences when it is told to.

    contender.py ENGINE MODEL INPUT.npy OUTPUT.npy THREADS CPU,CPU,…

Answers in lines of JSON: one when the network has run for the first time, then one for each line
`{"runs": N, "seconds": S}` that comes in. Ends with its input. Times are by the clock, and of all the
process's threads on CPUs.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

_WARM = 2  # untimed runs that begin a block
_LONG_S = 0.1  # an inference this long needs one of them


def peak_mib() -> float:
    """Return the most memory that this process had resident."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise LookupError("VmHWM")


def block(engine: Any, runs: int, seconds: float) -> tuple[list[float], list[float]]:
    """Return the milliseconds and CPU milliseconds of up to `runs` inferences, begun within `seconds`.

    One at least.
    """
    for _ in range(_WARM):
        begun = time.perf_counter()
        engine.run()
        if time.perf_counter() - begun > _LONG_S:
            break
    times: list[float] = []
    spent: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < runs:
        begun = time.perf_counter()
        if times and begun >= until:
            break
        used = time.process_time()
        engine.run()
        times.append((time.perf_counter() - begun) * 1e3)
        spent.append((time.process_time() - used) * 1e3)
    return times, spent


def serve(answers: TextIO, name: str, model: str, given: str, output: str, threads: str) -> None:
    """Load the network, write its output, then answer until the input ends."""
    import numpy as np
    from engines import ENGINES

    def answer(**document: Any) -> None:
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    begun = time.perf_counter()
    try:
        idle = peak_mib()
        engine = ENGINES[name](Path(model), np.ascontiguousarray(np.load(given)), int(threads))
        engine.run()
        np.save(output, engine.output())
        answer(load_s=time.perf_counter() - begun, idle_mib=idle, peak_mib=peak_mib())
        for line in sys.stdin:
            order = json.loads(line)
            times, spent = block(engine, order["runs"], order["seconds"])
            answer(times_ms=times, cpu_ms=spent, peak_mib=peak_mib())
    except Exception as error:
        answer(error=f"{type(error).__name__}: {str(error).strip() or 'no words'}")


def main() -> None:
    """Choose the CPUs before any library makes threads, and keep what libraries print off the answers."""
    *what, cpus = sys.argv[1:]
    os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(answers, *what)
    answers.close()
    os._exit(0)  # no engine's destructors: some hang or crash


if __name__ == "__main__":
    main()
