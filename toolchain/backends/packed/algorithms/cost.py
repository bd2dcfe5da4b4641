"""What a convolution is estimated to cost: time, and bytes of weights.

    computing = FLOPs / rate + values transformed / rate
    reading   = bytes that no cache holds / bandwidth
    seconds   = the longer of the two + what is exposed of the shorter

for the generators fetch weights ahead.

An estimate only has to order the algorithms of one layer. Records of measurements overrule it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.algorithms.winograd.transforms import points, summed
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution

_FLOAT = 4
# Transforms of 64 values, by F(6 x 6, 3 x 3), were measured to be so much slower than those of up to 36.
_HELD, _SPILLED = 36, 3
# These two are fitted to twelve layers of ResNet-18 and VGG-16, measured in the network with AVX-512: of
# 100 ways to compute them the estimates are right within 10 % for 63, within 15 % for 77, and what they
# lead to is on average 1.6 % slower than the fastest.
_EXPOSED, _EXPOSED_OF_PASSES = 0.4, 0.2  # of the shorter of computing and reading
_CLOSE = 1.1  # of estimates this near each other the one with fewer bytes of weights wins


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


def cost(choice: Choice, conv: Convolution, machine: Machine) -> Cost:
    """Return what a convolution without groups costs, computed by `direct` or `winograd`."""
    return (
        _winograd(choice, conv, machine) if choice.algorithm == "winograd" else _direct(choice, conv, machine)
    )


def _direct(choice: Choice, conv: Convolution, machine: Machine) -> Cost:
    rate = machine.rates
    ci, co = _padded(conv.ci, machine.lanes), _padded(conv.co, machine.lanes * choice.blocks)
    products = conv.batch * prod(conv.out) * prod(conv.kernel) * ci * co
    weights = prod(conv.kernel) * ci * co * _FLOAT
    reads = conv.batch * max(1, prod(conv.out[:-1]) // choice.rows) if choice.order == "rows" else 1
    traffic = weights * (1 + (reads - 1) * _missed(weights, machine) / rate.again)
    exposed = _EXPOSED_OF_PASSES if choice.depth else _EXPOSED
    return Cost(
        _seconds(2 * products / rate.flops, traffic / rate.stream, exposed) / machine.threads, weights
    )


def _winograd(choice: Choice, conv: Convolution, machine: Machine) -> Cost:
    rate, taps = machine.rates, summed(conv.kernel, choice.tile)
    ci, co = _padded(conv.ci, machine.lanes), _padded(conv.co, machine.lanes * choice.blocks)
    groups = co // (machine.lanes * choice.blocks)
    high, wide = (-(-out // m) for out, m in zip(conv.out, choice.tile, strict=True))
    count = prod(points(conv.kernel, choice.tile))
    weights = count * ci * taps * co * _FLOAT
    if choice.order == "rows":
        bands = -(-high // min(choice.rows, high))
        rows, reads, pieces = high / bands, conv.batch * bands, conv.batch * bands
    else:
        rows, reads, pieces = conv.batch * high, 1, groups
    # Values of one channel that are transformed at once; taps that are summed up reach into further rows.
    inputs, outputs = (rows + taps - 1) * wide * count, rows * wide * count
    held = (inputs * ci + outputs * choice.blocks * machine.lanes) * _FLOAT
    # What the cache does not hold is read again: weights by each piece, inputs by each group.
    again = inputs * ci * _FLOAT * (groups - 1) * reads * _missed(held, machine)
    traffic = weights * (1 + (reads - 1) * _missed(weights, machine) / rate.again) + again / rate.again
    spilled = _SPILLED if count > _HELD else 1
    transforms = reads * (inputs * ci + outputs * co) * spilled / rate.values
    products = conv.batch * high * wide * count * ci * taps * co
    seconds = _seconds(2 * products / rate.flops + transforms, traffic / rate.stream, _EXPOSED)
    shares = min(pieces, machine.threads)
    idle = -(-pieces // shares) * shares / pieces  # the last round of pieces may not occupy every core
    return Cost(seconds * idle / shares, weights)


def _missed(size: float, machine: Machine) -> float:
    """Return which share of so many bytes is no longer in the cache when it is read again."""
    return min(1.0, max(0.0, (size - machine.cache / 2) / machine.cache))


def _seconds(computing: float, reading: float, exposed: float) -> float:
    return max(computing, reading) + exposed * min(computing, reading)


def _padded(channels: int, block: int) -> int:
    return -(-channels // block) * block
