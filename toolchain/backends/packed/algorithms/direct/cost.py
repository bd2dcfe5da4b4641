"""The cost model of the algorithm `direct`."""

from __future__ import annotations

from math import prod

from toolchain.backends.packed.algorithms.cost import Cost, missed, padded, seconds
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.launch import alone
from toolchain.backends.packed.gpus import GpuRow
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import ITEMS
from toolchain.backends.packed.recognise.convolution import Convolution


def cost(choice: DirectChoice, conv: Convolution, machine: Machine) -> Cost:
    """Return the estimated cost of a direct convolution without groups."""
    if machine.gpu is not None:
        return _on_gpu(choice, conv, machine, machine.gpu)
    rate = machine.rates
    ci, co = padded(conv.ci, machine.lanes), padded(conv.co, machine.lanes)
    products = conv.batch * prod(conv.out) * prod(conv.kernel) * ci * co
    weights = prod(conv.kernel) * ci * co * machine.size(conv.dtype)
    reads = conv.batch * max(1, prod(conv.out[:-1]) // choice.rows) if choice.order == "rows" else 1
    traffic = weights * (1 + (reads - 1) * missed(weights, machine) / rate.again)
    exposed = rate.exposed_of_passes if choice.depth else rate.exposed
    return Cost(
        seconds(2 * products / machine.flops(conv.dtype), traffic / rate.stream, exposed) / machine.threads,
        weights,
    )


def _on_gpu(choice: DirectChoice, conv: Convolution, machine: Machine, gpu: GpuRow) -> Cost:
    wide = machine.lanes * choice.blocks
    ci, co = padded(conv.ci, machine.lanes), padded(conv.co, wide)
    each = prod(conv.kernel) * ci
    items = conv.batch * co // wide * prod(conv.out[:-1]) * -(-conv.out[-1] // choice.columns)
    group = prod(choice.group) if choice.group else ITEMS
    time = alone(items, group, each * wide * choice.columns, each * (wide + choice.columns), gpu)
    return Cost(time, each * co * machine.size(conv.dtype))
