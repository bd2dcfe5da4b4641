"""The algorithm `winograd`: products of transformed inputs and weights, fewer than the convolution has."""

from __future__ import annotations

import math
from math import prod

import numpy as np
from tvm import DataType, tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Cost, PackedAlgorithm, missed, padded, seconds
from toolchain.backends.packed.algorithms.items import columns_of, fits
from toolchain.backends.packed.algorithms.launch import alone
from toolchain.backends.packed.algorithms.winograd.loops import winograd
from toolchain.backends.packed.algorithms.winograd.transforms import (
    WinogradChoice,
    halo,
    pack_weight,
    points,
    shift,
    summed,
    tiles_of,
)
from toolchain.backends.packed.gpus import GpuRow
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import ITEMS
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read

# The cost model of the algorithm `winograd`.


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


# The choices of `winograd`, and the one with the lowest estimated cost.

_ROWS = (1, 2, 4)  # rows of tiles in one parallel piece
# Approximate largest errors relative to the largest output, by the number of axes with several points and the
# largest number of points. Measured with 64 channels of random numbers against double precision; the error
# grows with the square root of the channels, as sums of rounding errors do. Direct sums have 6e-7.
_ERRORS = {
    (1, 4): 3.5e-7, (1, 5): 6e-7, (1, 6): 7.5e-7, (1, 8): 1.8e-6,
    (2, 4): 3.5e-7, (2, 5): 1.2e-6, (2, 6): 1.3e-6, (2, 8): 9e-6,
}  # fmt: skip
_SUMS = 2**31  # beyond the largest int32
_ERROR_BOUND = 1e-5  # error of one layer: a hundredth of the network's tolerance in the manifest


def default(conv: Convolution, machine: Machine) -> WinogradChoice | None:
    """Return the choice with the lowest estimated cost; None if winograd does not apply."""
    best: WinogradChoice | None = None
    for choice in _space(conv, machine, _blocks(conv, machine)):
        if best is None or cost(choice, conv, machine).beats(cost(best, conv, machine)):
            best = choice
    return best


def candidates(conv: Convolution, machine: Machine) -> list[WinogradChoice]:
    """Return the choices that a tuner may measure, the most promising first.

    Choices whose estimated time exceeds 1.5 times the best are left out.
    """
    found = [
        (cost(choice, conv, machine).seconds, place, choice)
        for place, choice in enumerate(
            choice for blocks in (4, 2, 1) for choice in _space(conv, machine, blocks)
        )
    ]
    bound = 1.5 * min((seconds for seconds, _place, _choice in found), default=0.0)
    return list(dict.fromkeys(choice for seconds, _place, choice in sorted(found) if seconds <= bound))


def legal(choice: WinogradChoice, conv: Convolution, machine: Machine) -> bool:
    """Return whether a choice computes a convolution whose input is packed in full blocks.

    Not in float16: there the transforms would cause most of the error.
    """
    return (
        machine.dtype == "float32"
        and conv.ci >= machine.lanes
        and choice.tile in tiles_of(conv)
        and _precise(choice.tile, conv, machine)
        and (conv.batch == 1 or choice.order == "rows" or summed(conv.kernel, choice.tile) == 1)
        and 1 <= choice.blocks <= min(-(-conv.co // machine.lanes), machine.registers // 2)
        and -(-conv.co // machine.lanes) % choice.blocks == 0
        and 1 <= choice.columns <= columns_limit(machine, choice.blocks, conv.dtype)
        and choice.tile_rows >= 1
        and (not machine.pieces.fine or choice.order == "channels")  # work items share the transformed inputs
        and fits(choice.group, machine)
    )


def _precise(tile: tuple[int, ...], conv: Convolution, machine: Machine) -> bool:
    """Return whether a convolution in such tiles is as exact as it has to be: of integers, exact.

    Sums of integers may wrap around on the way, for only their last 32 bits count; the result, shifted as
    the weights are, must not.
    """
    products = machine.products_of(conv.dtype)
    if products.plain:
        return error(conv, tile) <= _ERROR_BOUND
    bits = shift(conv.kernel, tile)
    factors = [_largest(products.inputs), _largest(products.weights)]
    return bits is not None and prod((*factors, *conv.kernel, conv.ci)) << bits < _SUMS


def _largest(dtype: str) -> int:
    """Return the largest size of an integer of a type."""
    ends = np.iinfo(dtype)
    return max(int(ends.max), -int(ends.min))


def error(conv: Convolution, tile: tuple[int, ...]) -> float:
    """Return the estimated error of a convolution in such tiles, relative to the largest output."""
    several = [count for count in points(conv.kernel, tile) if count > 1]
    return _ERRORS[len(several), max(several)] * math.sqrt(conv.ci * summed(conv.kernel, tile) / 64)


def columns_limit(machine: Machine, blocks: int, dtype: str = "float32") -> int:
    """Return the tiles whose sums fit the registers beside weights and inputs."""
    if machine.pieces.fine:
        return max(1, min(machine.tiles.columns, machine.columns(blocks)))
    spare = machine.tiles.spare
    return max(1, machine.columns_of(dtype, blocks) - (spare == "all" or (spare == "narrow" and blocks == 1)))


def _blocks(conv: Convolution, machine: Machine) -> int:
    if machine.pieces.fine:
        return machine.tiles.blocks[0]
    return 2 if -(-conv.co // machine.lanes) % 2 == 0 else 1


def _space(conv: Convolution, machine: Machine, blocks: int) -> list[WinogradChoice]:
    found = []
    limit = columns_limit(machine, blocks, conv.dtype)
    for tile in tiles_of(conv):
        high, wide = (-(-out // m) for out, m in zip(conv.out, tile, strict=True))
        bands = [rows for rows in _ROWS if rows < high]
        found += [WinogradChoice(blocks, _even(rows * wide, limit), rows, tile) for rows in bands]
        count = conv.batch * high * wide
        whole = columns_of(count, limit) if machine.pieces.fine else _even(count, limit)
        found.append(WinogradChoice(blocks, whole, tile=tile, order="channels", loads=machine.loads))
    return [choice for choice in found if legal(choice, conv, machine)]


def _even(count: int, limit: int) -> int:
    """Return the columns that divide an axis into about equal tiles."""
    return -(-count // -(-count // limit))


class Winograd(PackedAlgorithm[Convolution, WinogradChoice]):
    """Winograd convolution: products of transformed inputs and weights."""

    choice = WinogradChoice
    exact = False
    any_products = True

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it is a convolution that winograd tiles fit.

        It is one of float32 whose rounding may differ, or of integers that are widened: their transforms are
        exact.
        """
        if machine.dtype != "float32" or not isinstance(contraction, Convolution):
            return False
        products = machine.products_of(contraction.dtype)
        fits = not contraction.rounded if products.plain else bool(products.widened)
        return fits and bool(tiles_of(contraction))

    def default(self, contraction: Convolution, machine: Machine) -> WinogradChoice | None:
        """Return the choice with the lowest estimated cost; None if no choice is legal, and on GPUs.

        There its three launches took 2.4 times their estimate (docs/decisions/0041), so only a measurement
        selects it.
        """
        return None if machine.gpu is not None else default(contraction, machine)

    def candidates(self, contraction: Convolution, machine: Machine) -> list[WinogradChoice]:
        """Return the choices that a tuner may measure."""
        return candidates(contraction, machine)

    def legal(self, choice: WinogradChoice, contraction: Convolution, machine: Machine) -> bool:
        """Return whether a choice fits the contraction and the registers."""
        return legal(choice, contraction, machine)

    def cost(self, choice: WinogradChoice, contraction: Convolution, machine: Machine) -> Cost:
        """Return the estimated cost."""
        return cost(choice, contraction, machine)

    def halo(self, contraction: Convolution, choice: WinogradChoice, machine: Machine) -> tuple[int, ...]:
        """Return the zeros needed around the input so that every tile is inside it."""
        del machine
        return halo(contraction, choice.tile)

    def weight(
        self,
        value: Array,
        contraction: Convolution,
        choice: WinogradChoice,
        machine: Machine,
        input_lanes: int,
    ) -> Array:
        """Return the transformed weight, packed as `weight_shape`."""
        del input_lanes
        products = machine.products_of(contraction.dtype)
        return pack_weight(value, contraction, choice, machine.lanes, products)

    def function(
        self,
        read: Read,
        contraction: Convolution,
        choice: WinogradChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        return winograd(read, contraction, choice, layouts, machine)
