"""What the machine in software takes on this host for a network's region, strict and not."""

from __future__ import annotations

import resource
import time
from statistics import median
from typing import Any

from benchmarks.accelerator.regions import CONFIG, quantised, region_of
from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.dumps.convolution import memory_before
from toolchain.vta.dumps.dump import PHYSICAL_BASE
from toolchain.vta.layers.region import seeded_inputs
from toolchain.vta.machine.requests import EncodedProgram, SimOptions
from toolchain.vta.machine.simulator import Simulated, Simulator

GOAL_S = 0.4
_MODES = {"plain": SimOptions(), "strict": SimOptions(strict=True)}


def simulations(name: str, rounds: int, again: int) -> dict[str, Any]:
    """Return seconds for one run of a network's region, the cycle model and the memory's way included.

    Parameters
    ----------
    rounds
        Of both modes in turn, each in a process of its own.
    again
        Runs of a process.
    """
    region = region_of(quantised(name, "mse"))
    program = assemble(region, CONFIG)
    memory = bytes(memory_before(program, seeded_inputs(region, 0), PHYSICAL_BASE))
    asked = EncodedProgram(CONFIG, program.code(PHYSICAL_BASE), memory, PHYSICAL_BASE)
    times: dict[str, list[tuple[float, float]]] = {mode: [] for mode in _MODES}
    after: set[bytes | None] = set()
    for _ in range(rounds):
        for mode, wish in _MODES.items():
            took, left = _run(asked, wish, again)
            times[mode].append(took)
            after.add(left)
    if len(after) != 1:
        raise SystemExit("the modes leave different memories")
    return {
        "kind": "measured on this host: one process, one thread",
        "network": name,
        "instructions": asked.instructions,
        "goal_cpu_s": GOAL_S,
        "seconds": {mode: _summary(each) for mode, each in times.items()},
    }


def _run(asked: EncodedProgram, wish: SimOptions, again: int) -> tuple[tuple[float, float], bytes | None]:
    """Return seconds of the processor and by the clock for one run, and the memory that it leaves."""
    memory = None
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with Simulator() as simulator:
        for _ in range(again):
            done = simulator.run(asked, wish)
            if not isinstance(done, Simulated):
                raise SystemExit(f"refused: {done.message}")
            memory = done.memory
    clock, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (cpu / again, clock / again), memory


def _summary(times: list[tuple[float, float]]) -> dict[str, float]:
    cpu, clock = zip(*times, strict=True)
    return {
        "cpu_median": round(median(cpu), 3),
        "cpu_best": round(min(cpu), 3),
        "clock_median": round(median(clock), 3),
        "clock_best": round(min(clock), 3),
    }
