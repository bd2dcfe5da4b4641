"""The cost model of the algorithm `winograd`."""

from __future__ import annotations

from math import prod

from tvm import DataType

from toolchain.backends.packed.algorithms.cost import Cost, missed, padded, seconds
from toolchain.backends.packed.algorithms.launch import alone
from toolchain.backends.packed.algorithms.winograd.choice import WinogradChoice
from toolchain.backends.packed.algorithms.winograd.transforms import points, summed
from toolchain.backends.packed.gpus import GpuRow
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import ITEMS
from toolchain.backends.packed.recognise.convolution import Convolution


def cost(choice: WinogradChoice, conv: Convolution, machine: Machine) -> Cost:
    """Return the estimated cost of a winograd convolution."""
    if machine.gpu is not None:
        return _on_gpu(choice, conv, machine, machine.gpu)
    rate, taps = machine.rates, summed(conv.kernel, choice.tile)
    ci, co = padded(conv.ci, machine.lanes), padded(conv.co, machine.lanes * choice.blocks)
    groups = co // (machine.lanes * choice.blocks)
    high, wide = (-(-out // m) for out, m in zip(conv.out, choice.tile, strict=True))
    count = prod(points(conv.kernel, choice.tile))
    products = machine.products_of(conv.dtype)
    size = products.size if products.plain else DataType(products.stored).itemsize
    weights = count * ci * taps * co * size
    if choice.order == "rows":
        bands = -(-high // min(choice.tile_rows, high))
        rows, reads, pieces = high / bands, conv.batch * bands, conv.batch * bands
    else:
        rows, reads, pieces = conv.batch * high, 1, groups
    # Values of one channel that are transformed together; taps without transform reach into further rows.
    inputs, outputs = (rows + taps - 1) * wide * count, rows * wide * count
    held = (inputs * ci + outputs * choice.blocks * machine.lanes) * size
    if machine.pieces.fine:  # one point after the other
        held /= count
    # Data that the cache does not hold is read again: weights by each piece, inputs by each group.
    again = inputs * ci * size * (groups - 1) * reads * missed(held, machine)
    traffic = weights * (1 + (reads - 1) * missed(weights, machine) / rate.again) + again / rate.again
    spilled = rate.spilled if count > rate.held else 1
    transforms = reads * (inputs * ci + outputs * co) * spilled / rate.values
    total = seconds(
        2 * conv.batch * high * wide * count * ci * taps * co / machine.flops(conv.dtype) + transforms,
        traffic / rate.stream,
        rate.exposed,
    )
    shares = min(pieces, machine.threads)
    idle = -(-pieces // shares) * shares / pieces  # the last round of pieces may not occupy every core
    return Cost(total * idle / shares, weights)


def _on_gpu(choice: WinogradChoice, conv: Convolution, machine: Machine, gpu: GpuRow) -> Cost:
    """Return the cost of three launches: transforms of inputs, products, transforms of outputs."""
    taps, lanes, wide = summed(conv.kernel, choice.tile), machine.lanes, machine.lanes * choice.blocks
    ci, co = padded(conv.ci, lanes), padded(conv.co, wide)
    tiles = conv.batch * prod(-(-out // m) for out, m in zip(conv.out, choice.tile, strict=True))
    count = prod(points(conv.kernel, choice.tile))
    group, each = prod(choice.group) if choice.group else ITEMS, ci * taps
    items = count * co // wide * -(-tiles // choice.columns)
    time = (
        alone(tiles * ci // lanes, ITEMS, 4 * count * lanes, count * lanes, gpu)
        + alone(items, group, each * wide * choice.columns, each * (wide + choice.columns), gpu)
        + alone(tiles * co // lanes, ITEMS, 4 * count * lanes, count * lanes, gpu)
    )
    return Cost(time, count * each * co * machine.size(conv.dtype))
