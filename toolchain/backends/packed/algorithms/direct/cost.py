"""The cost model of the algorithm `direct`."""

from __future__ import annotations

from math import prod

from toolchain.backends.packed.algorithms.cost import Cost, missed, padded, seconds
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution


def cost(choice: DirectChoice, conv: Convolution, machine: Machine) -> Cost:
    """Return the estimated cost of a direct convolution without groups."""
    rate = machine.rates
    ci, co = padded(conv.ci, machine.lanes), padded(conv.co, machine.lanes * choice.blocks)
    products = conv.batch * prod(conv.out) * prod(conv.kernel) * ci * co
    weights = prod(conv.kernel) * ci * co * machine.size(conv.dtype)
    reads = conv.batch * max(1, prod(conv.out[:-1]) // choice.rows) if choice.order == "rows" else 1
    traffic = weights * (1 + (reads - 1) * missed(weights, machine) / rate.again)
    exposed = rate.exposed_of_passes if choice.depth else rate.exposed
    return Cost(
        seconds(2 * products / machine.flops(conv.dtype), traffic / rate.stream, exposed) / machine.threads,
        weights,
    )
