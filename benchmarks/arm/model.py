"""LLVM's model of a core, asked about a hot loop."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from benchmarks.arm.counting import NOTHING, Count
from benchmarks.arm.failure import ArmError
from benchmarks.arm.loops import HotLoop, llvm

# Cycles of one multiply-accumulate of four lanes, which no code can beat. Arm, "Cortex-A72 Software
# Optimization Guide", section 3.15.
CYCLES_PER_FMA = {"cortex-a72": 1.0}
_ITERATIONS = 100
_LABEL = re.compile(r"(?:0x)?[0-9a-f]+ <[^>]*>")


def cycles(loop: HotLoop, cpu: str) -> float:
    """Return the cycles of one pass through a loop, by llvm-mca's model of a 64-bit core.

    Everything it reads is in the first cache, every branch foreseen. Not to be asked about cores that
    issue in order: its Cortex-A53 holds up each load behind a multiply-accumulate.
    """
    text = "\n".join(_LABEL.sub(".Lsomewhere", instruction.text) for instruction in loop.body)
    tool = llvm("llvm-mca")
    options = (
        f"-mcpu={cpu}",
        "-mtriple=aarch64-linux-gnu",
        f"-iterations={_ITERATIONS}",
        "-instruction-info=0",
    )
    done = subprocess.run(
        [tool, *options, "-resource-pressure=0"], input=text, capture_output=True, text=True, timeout=60
    )
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    if done.returncode != 0 or not found:
        raise ArmError(f"llvm-mca, on a loop of {loop.function}: {done.stderr.strip()[:300]}")
    return int(found[1]) / _ITERATIONS


def share_of_bound(loop: HotLoop, cpu: str) -> float:
    """Return the share of the model's cycles that the multiply-accumulates alone would take; 1 is best."""
    return loop.multiply_accumulates * CYCLES_PER_FMA[cpu] / cycles(loop, cpu)


@dataclass(frozen=True)
class Judged:
    """A hot loop with what is known of it.

    Attributes
    ----------
    executed
        Instructions of an inference that were in it; 0: not counted, or not run.
    share
        `share_of_bound`, where there is a model of the core; else None.
    """

    function: str
    start: int
    instructions: int
    multiply_accumulates: int
    products: int
    vector_spills: int
    scalar_spills: int
    calls: int
    executed: int
    share: float | None


def judged(loop: HotLoop, runs: dict[int, Count], cpu: str) -> Judged:
    """Return a loop with its share of the bound.

    Parameters
    ----------
    runs
        What was executed from each address on, as `counting.placed` says; may be empty.
    """
    return Judged(
        function=loop.function,
        start=loop.start,
        instructions=len(loop.body),
        multiply_accumulates=loop.multiply_accumulates,
        products=loop.products,
        vector_spills=loop.vector_spills,
        scalar_spills=loop.scalar_spills,
        calls=loop.calls,
        executed=sum(runs.get(i.address, NOTHING).instructions for i in loop.body),
        share=share_of_bound(loop, cpu) if cpu in CYCLES_PER_FMA else None,
    )
