"""The shortest time in which so much can have been computed: what is below it was not measured by a clock.

A bound that no honest board meets, and no more: it refuses what cannot be, not what is unlikely.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LEAST_MS = 1e-6
"""Of any call, also of one that computes nothing: six cycles of the fastest clock. A call begins by checking
its arguments, which takes a hundred times that; a launch on a device takes microseconds."""

# Float32 operations of one core in a cycle, two for each multiply-add: x86-64 by the vectors that the code
# uses, two units of 512 or 256 bits, or four of 128 bits without fused multiply-add (Zen); ARM by its cores'
# pipes (Arm's "Software Optimization Guide" of each core: A9 to A75 one vector a cycle, A76 to A78 two).
_OF_LEVELS = {"x86-64-v4": 64, "x86-64-v3": 32, "x86-64-v2": 16, "x86-64": 16}
_OF_CORES = {
    **{f"cortex-a{number}": 8 for number in (7, 8, 9, 15, 17, 32, 35, 53, 55, 57, 72, 73, 75)},
    **{f"cortex-a{number}": 16 for number in (76, 77, 78)},
}
_MOST = 32  # four vectors of 128 bits a cycle: Cortex-X, Neoverse V, Apple's
# Most Hz: a Core i9-14900KS; cores of ours were sold with up to 3 GHz; other ARM cores with up to 5.
_CLOCK = {"x86-64": 6.2e9, "known": 3.2e9, "other": 5e9}
# Operations are counted by the definition, and code may do with fewer: winograd's 6x6 tiles need a fifth of
# the products, and windows that lie in the padding for the most part are not computed (9 or 27 taps, of which
# one meets the image). Dot products of bytes are four times as fast as those of floats. A clock of a board
# may be wrong by two.
ROOM = 64
# It is defined as a convolution of an image that was spread by its strides, and nobody computes the products
# of the zeros in between: of 8 x 8 or 32 x 32 one is left.
_SPREAD = re.compile(r"conv\dd_transpose")


def least_ms(
    flops: float, *, triple: str, cpu: str, level: str, threads: int = 1, peak: float | None = None
) -> float:
    """Return the milliseconds below which no board of this kind computes so much.

    Parameters
    ----------
    flops
        Floating-point operations by definition; 0 where they are not known, or there are none.
    triple, cpu, level, threads
        As in `RecordKey`.
    peak
        Most FLOP/s of the device beside the cores that computes; None: the cores compute.
    """
    if peak is None:
        peak = threads * _core(triple, cpu, level)
    return max(LEAST_MS, flops / (ROOM * peak) * 1e3)


def bounding_flops(flops: int, names: Iterable[str]) -> int:
    """Return how much functions of these names compute at least; 0 where their FLOPs say nothing of that."""
    return 0 if any(_SPREAD.search(name) for name in names) else flops


def _core(triple: str, cpu: str, level: str) -> float:
    """Return the most operations that one core does in a second."""
    if triple.startswith("x86_64"):
        wide = max(_OF_LEVELS.values())
        return _OF_LEVELS.get(level.partition("+")[0], wide) * _CLOCK["x86-64"]
    if cpu in _OF_CORES:
        return _OF_CORES[cpu] * _CLOCK["known"]
    return _MOST * _CLOCK["other"]
