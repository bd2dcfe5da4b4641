"""What a convolution is estimated to cost: time, and bytes of weights.

    computing = FLOPs / rate + values transformed / rate
    reading   = bytes that no cache holds / bandwidth
    seconds   = the longer of the two + what is exposed of the shorter

for the generators fetch weights ahead.

An estimate only has to order the algorithms of one layer. Records of measurements overrule it.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.machine import Machine

# This one and the algorithms' shares of what is exposed are fitted to twelve layers of ResNet-18 and VGG-16,
# measured in the network with AVX-512: of 100 ways to compute them the estimates are right within 10 % for
# 63, within 15 % for 77, and what they lead to is on average 1.6 % slower than the fastest.
_CLOSE = 1.1  # of estimates this near each other the one with fewer bytes of weights wins
EXPOSED = 0.4  # of the shorter of computing and reading


@dataclass(frozen=True)
class Cost:
    """An estimate: seconds, and bytes of packed weights."""

    seconds: float
    weights: int

    def beats(self, other: Cost) -> bool:
        """Whether this is clearly faster, or about as fast with smaller weights."""
        if self.weights == other.weights:
            return self.seconds < other.seconds
        if self.weights < other.weights:
            return self.seconds <= other.seconds * _CLOSE
        return self.seconds * _CLOSE < other.seconds


def seconds(computing: float, reading: float, exposed: float) -> float:
    """Return the time of computing and reading at once, `exposed` a share of the shorter."""
    return max(computing, reading) + exposed * min(computing, reading)


def missed(size: float, machine: Machine) -> float:
    """Return which share of so many bytes is no longer in the cache when it is read again."""
    return min(1.0, max(0.0, (size - machine.cache / 2) / machine.cache))


def padded(channels: int, block: int) -> int:
    """Return so many channels in full blocks."""
    return -(-channels // block) * block
