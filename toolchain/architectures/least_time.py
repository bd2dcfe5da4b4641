"""A lower bound of the time for a computation; a shorter time cannot have been measured.

The bound refuses only impossible times, not unlikely ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from toolchain.architectures.table import UNKNOWN_CORE, architecture_of

LEAST_MS = 1e-6
"""Lower bound for any call, even an empty one: six cycles of the fastest clock. Checking a call's arguments
takes a hundred times as long; a launch on a device takes microseconds."""

LONGEST_MS = 3.2e10
"""Upper bound for any call: a year. Sums of such numbers stay finite."""

# Operations are counted by the definition, but code may need fewer: winograd's 6x6 tiles need a fifth of the
# products, and taps in the padding are not computed (of 9 or 27 taps, one may meet the image). Dot products
# of bytes are four times as fast as those of floats. A board's clock may be wrong by a factor of two.
ROOM = 64
_FASTER = 2.0  # a core may run so many times as fast as when it was measured: its clock follows a governor
# A transposed convolution is defined on an image spread by its strides, and code skips the products with the
# zeros in between: only one of 8 x 8 or 32 x 32 is left.
_SPREAD = re.compile(r"conv\dd_transpose")


def least_ms(
    flops: float,
    *,
    triple: str,
    cpu: str,
    level: str,
    threads: int = 1,
    peak: float | None = None,
    measured: float | None = None,
) -> float:
    """Return the shortest possible time of a computation on such a board, in milliseconds.

    Parameters
    ----------
    flops
        Floating-point operations by definition; 0 if there are none or the number is unknown.
    triple, cpu, level, threads
        As in `RecordKey`.
    peak
        Peak FLOP/s of the accelerator that computes; None if the CPU computes.
    measured
        Peak FLOP/s that was measured on one core of the board; None: it was not. A board that reports more
        than such cores can reach gains nothing by it.
    """
    if peak is None:
        core = _core(triple, cpu, level)
        peak = threads * (core if measured is None else min(core, _FASTER * measured))
    return max(LEAST_MS, flops / (ROOM * peak) * 1e3)


def bounding_flops(flops: int, names: Iterable[str]) -> int:
    """Return a lower bound of the operations for functions of these names; 0 if `flops` gives none."""
    return 0 if any(_SPREAD.search(name) for name in names) else flops


def _core(triple: str, cpu: str, level: str) -> float:
    """Return the upper bound of the operations per second of one core."""
    row = architecture_of(triple)
    return row.fastest.of(cpu, level) if row else UNKNOWN_CORE
