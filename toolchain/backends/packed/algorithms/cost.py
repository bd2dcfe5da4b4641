"""The estimated cost of a convolution: time, and bytes of weights.

    computing = FLOPs / rate + values transformed / rate
    reading   = bytes that no cache holds / bandwidth
    seconds   = the longer of the two + what is exposed of the shorter

for the generators fetch weights ahead.

An estimate only has to order the algorithms of one layer. Records of measurements overrule it.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.machine import Machine

# Of estimates within this factor, the one with fewer bytes of weights wins; fitted like `Rates`.
_CLOSE = 1.1

CHAINS = 8
"""Independent multiply-adds that keep two units with four cycles' latency busy.

Of the optimisation manuals of Intel and AMD; Arm's cores need fewer.
"""


@dataclass(frozen=True)
class Cost:
    """An estimated cost: seconds, and bytes of packed weights."""

    seconds: float
    weights: int

    def beats(self, other: Cost) -> bool:
        """Return whether this is clearly faster, or about as fast with smaller weights."""
        if self.weights == other.weights:
            return self.seconds < other.seconds
        if self.weights < other.weights:
            return self.seconds <= other.seconds * _CLOSE
        return self.seconds * _CLOSE < other.seconds


def seconds(computing: float, reading: float, exposed: float) -> float:
    """Return the time of overlapping computing and reading; `exposed` of the shorter is not hidden."""
    return max(computing, reading) + exposed * min(computing, reading)


def missed(size: float, machine: Machine) -> float:
    """Return the share of `size` bytes that the cache has evicted before they are read again."""
    cache = machine.rates.cache or machine.cache
    return min(1.0, max(0.0, (size - cache / 2) / cache))


def padded(channels: int, block: int) -> int:
    """Return the number of channels, rounded up to full blocks."""
    return -(-channels // block) * block
