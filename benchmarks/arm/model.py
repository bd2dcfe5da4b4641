"""LLVM's model of a core, asked about a hot loop."""

from __future__ import annotations

import re
import subprocess

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
