"""How long a launch takes by the model: words by pipe, weighted by the trip counts of loops."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from toolchain.devices.kernel import Kernel
from toolchain.mali.compiled import Compiled
from toolchain.mali.gpu import T860_MP4, Gpu
from toolchain.mali.trips import loops_of


@dataclass(frozen=True)
class Estimate:
    """A launch, by the model.

    Attributes
    ----------
    arithmetic, load_store, texture
        Instruction words that a work item executes in each pipe, on average.
    multiplies
        Multiplications that a work item does, on average.
    cycles
        Of a core, for a work item.
    ms
        Of the launch.
    """

    arithmetic: float
    load_store: float
    texture: float
    multiplies: float
    cycles: float
    ms: float

    def gflops(self, items: int) -> float:
        """Return 1e9 multiply-accumulates a second, times 2, of a launch of so many work items."""
        return 2e-6 * self.multiplies * items / self.ms


def estimate(kernel: Kernel, compiled: Compiled, gpu: Gpu = T860_MP4) -> Estimate | None:
    """Return how long a launch takes; None where a loop turns nobody knows how often.

    A lower bound: `max(A / arithmetic pipes, LS, T)` cycles for a work item, without a cache miss,
    a wait for memory, or the start of a kernel. Loops count as often as work items turn them; of what a
    condition guards outside of a loop both sides count. Cores have as many work groups.

    It met the three times that TVM's article on Mali measured in 2018 within 9 %
    (docs/decisions/0042-a-model-of-mali.md).
    """
    loops = loops_of(kernel)
    if len(loops) != len(compiled.loops):
        loops = [loop for loop in loops if loop.turns != 1]  # compilers leave those out
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
    in_turn = ceil(prod(kernel.groups) / gpu.cores) * kernel.items_in_group  # on the core that has most to do
    return Estimate(
        arithmetic, load_store, texture, multiplies, cycles, in_turn * cycles / (gpu.clock_mhz * 1e3)
    )
