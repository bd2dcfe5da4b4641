"""Estimates the time of a launch from the words per pipe, weighted by the trip counts of loops."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from toolchain.devices.kernel import Kernel
from toolchain.mali.compiled import KernelStatistics
from toolchain.mali.gpu import T860_MP4, Gpu
from toolchain.mali.trips import loops_of


@dataclass(frozen=True)
class Estimate:
    """Modelled work and time of a launch.

    Attributes
    ----------
    arithmetic, load_store, texture
        Instruction words that a work item executes in each pipe, on average.
    multiplies
        Multiplications per work item, on average.
    cycles
        Cycles of a core per work item.
    ms
        Time of the launch in milliseconds.
    """

    arithmetic: float
    load_store: float
    texture: float
    multiplies: float
    cycles: float
    ms: float

    def gflops(self, items: int) -> float:
        """Return the GFLOP/s of a launch of `items` work items, two operations per multiply-accumulate."""
        return 2e-6 * self.multiplies * items / self.ms


def estimate(kernel: Kernel, compiled: KernelStatistics, gpu: Gpu = T860_MP4) -> Estimate | None:
    """Estimate the time of a launch; None if the trip count of a loop is unknown.

    A lower bound: `max(A / arithmetic pipes, LS, T)` cycles per work item, without cache misses, waits for
    memory or launch overhead. Loop bodies are weighted by their trip counts; both sides of a condition
    outside of loops count. Work groups are spread evenly over the cores.

    It is within 9 % of the three times that TVM's article on Mali measured in 2018
    (docs/decisions/0042-a-model-of-mali.md).
    """
    loops = loops_of(kernel)
    if len(loops) != len(compiled.loops):
        loops = [loop for loop in loops if loop.turns != 1]  # the compiler removes loops with one iteration
    if len(loops) != len(compiled.loops) or any(loop.turns is None for loop in loops):
        return None
    turns = [(loop.turns or 0) * loop.share for loop in loops]
    times = [
        prod(
            count
            for count, (first, last) in zip(turns, compiled.loops, strict=True)
            if first <= place <= last
        )
        for place in range(len(compiled.blocks))
    ]
    weighed = list(zip(times, compiled.blocks, strict=True))
    arithmetic = sum(count * block.arithmetic for count, block in weighed)
    load_store = sum(count * block.load_store for count, block in weighed)
    texture = sum(count * block.texture for count, block in weighed)
    multiplies = sum(count * block.multiplies for count, block in weighed)
    cycles = max(arithmetic / gpu.arithmetic_pipes, load_store, texture)
    in_turn = ceil(prod(kernel.groups) / gpu.cores) * kernel.items_in_group  # on the busiest core
    return Estimate(
        arithmetic, load_store, texture, multiplies, cycles, in_turn * cycles / (gpu.clock_mhz * 1e3)
    )
