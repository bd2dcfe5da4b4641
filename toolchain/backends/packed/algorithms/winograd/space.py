"""The choices of `winograd`, and the one with the lowest estimated cost."""

from __future__ import annotations

import math
from math import prod

import numpy as np

from toolchain.backends.packed.algorithms.items import columns_of, fits
from toolchain.backends.packed.algorithms.winograd.choice import WinogradChoice
from toolchain.backends.packed.algorithms.winograd.cost import cost
from toolchain.backends.packed.algorithms.winograd.transforms import points, shift, summed
from toolchain.backends.packed.algorithms.winograd.weight import tiles_of
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution

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
