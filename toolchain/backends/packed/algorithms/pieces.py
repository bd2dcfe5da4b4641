"""The number of convolution rows in a parallel piece of work."""

from __future__ import annotations

from math import prod

from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution

MOST_ROWS = 20  # largest number of rows per piece; 7 to 28 measured alike
_PIECES = 4  # per thread, so that a busy core delays at most a quarter of its share


def rows_of_piece(conv: Convolution, machine: Machine, others: int, most: int) -> int:
    """Return the rows of a piece: as many as leave enough pieces for every thread."""
    if len(conv.out) == 1:
        return 1
    height, above = conv.out[-2], others * prod(conv.out[:-2])
    fitting = [each for each in range(1, min(height, most) + 1) if height % each == 0]
    enough = [each for each in fitting if above * (height // each) >= _PIECES * machine.threads]
    return max(enough, default=1)
