"""How long the command line takes to answer `--help`, as a ratio to a Python that does nothing.

The goal is 150 ms; the ratio says the same on a slower machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

RUNS = 20
COMMANDS = {
    "python": ["-c", "pass"],
    "toolchain --help": ["-m", "toolchain", "--help"],
    "toolchain model --help": ["-m", "toolchain", "model", "--help"],
    "toolchain completion --help": ["-m", "toolchain", "completion", "--help"],
}


def best_ms(arguments: list[str], runs: int = RUNS) -> float:
    """Return the shortest of `runs` wall-clock times, in ms: the one least disturbed by others."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main() -> None:
    """Print one JSON document: per command its time in ms and its ratio to `python -c pass`."""
    times = {name: best_ms(arguments) for name, arguments in COMMANDS.items()}
    result = {
        name: {"ms": round(ms, 1), "ratio": round(ms / times["python"], 2)} for name, ms in times.items()
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
