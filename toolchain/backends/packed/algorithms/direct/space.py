"""The choices of `direct`: tiles whose sums fit the registers, and passes whose weights fit L1.

Measured on a Sapphire Rapids core (FMA peak 249 GFLOP/s shared with other work, so that its best is about
210), GFLOP/s, 3x3: AVX-512 2x14 209, 4x6 207, 2x7 202, 1x14 173, 1x28 110; where the blocks are odd 3x9 216,
5x5 205 (1x14 178), but 7x3 165 (1x14 182). AVX2 2x6 125 to 129, 2x5 120, 2x4 113, 4x2 111, 2x7 91 (it
spills); odd: 3x4 131, 5x2 118, 1x14 112; bytes by pmaddwd, on a Zen 5 core: 2x4 and 4x2 217, 1x8 205 to 216,
3x3 218, 2x5 196, 2x6 187, 2x7 100. SSE 4x2 41, 2x4 37, 1x8 30. ARM: llvm-mca's models and the hot
loops' spills. Instructions for each vector of products, Cortex-A72: 1x1 2x10 1.16, 2x9 1.19, 2x7 1.21;
3x3 2x7 1.15 at stride 2. Cortex-A9: 2x4 1.5; 3x3 stride 2 2x3 1.60, 2x4 1.62 (it spills); depthwise 14
columns on the one (stride 2: 7), 4 (2) on the other. Cortex-A53: 1x1 2x9 1.15, 2x10 spills; depthwise 8 (4).

AVX2 on a Zen 5 core whose AVX-512 is not used, 1x1, time with tiles of 3x4 and 3x3 relative to 2x4 to 2x6:
rows of 7 places 0.82 to 0.84 (six sums wait for each other), of 14 places 0.96 to 0.97, longer ones 0.99.
One channel, 5x5, relative to 2x6, which spills: 2x5 0.87, but 1.18 with tanh behind it, whose loop LLVM
unrolls then.

Uneven stripes, share of the peak at the same moment on an Emerald Rapids core, 1x1 of 14x14 places: 672 to
112 channels 98 % with tiles of 2, 2 and 3 blocks, 82 % with tiles of one; 208 to 208 99 % and 87 %.
Instructions for each vector of products, Cortex-A72: 1x1 2x10 and 3x6 1.16 and 1.18, 1x10 1.21; Cortex-A9:
2x4 1.56, but 3x2 2.5, so that a Cortex-A9 gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import CHAINS
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.items import (
    column_choices,
    columns_of,
    fits,
    group_choices,
    group_of_row,
)
from toolchain.backends.packed.algorithms.pieces import MOST_ROWS, rows_of_piece
from toolchain.backends.packed.loops.nest import shares
from toolchain.backends.packed.machine import STAYS, Loads, Machine
from toolchain.backends.packed.recognise.convolution import Convolution

# Merges groups of few channels into larger groups, to fill vectors.


def merged(conv: Convolution, lanes: int) -> tuple[int, int, int]:
    """Return (groups, input channels, output channels per group) after small groups were merged.

    A merged group has a block-diagonal weight, whose zeros are multiplied too (so an infinite input reaches
    the other groups of its block). That is still far faster than one group at a time, whose vectors are not
    full.
    """
    ci, co = conv.ci // conv.groups, conv.co // conv.groups
    for many in range(1, conv.groups):
        if many * ci % lanes or many * co % lanes:
            continue
        # If a merged group is one block, the last may have fewer groups, with zeros beyond the channels.
        if conv.groups % many == 0 or many * ci == many * co == lanes:
            return -(-conv.groups // many), many * ci, many * co
    return 1, conv.ci, conv.co


# Divides the output blocks of a convolution among tiles that need not be equally wide.
#
# A number of blocks that is a prime has no divisor but 1, and a tile of one block loads an input for each
# of its products. So the last tile may be wider or narrower: 7 blocks are tiles of 2, 2 and 3.


@dataclass(frozen=True)
class Stripe:
    """Groups of equally many output blocks, one behind the other; a tile computes a group.

    Attributes
    ----------
    first
        Its first output block.
    groups
        Number of groups.
    blocks
        Output blocks of each.
    """

    first: int
    groups: int
    blocks: int


def stripes(count: int, blocks: int) -> list[Stripe]:
    """Return one stripe, or two if `blocks` does not divide the number of output blocks.

    A single block that is left over joins the group before it.
    """
    groups, rest = divmod(count, blocks)
    if rest == 1 and groups:
        groups, rest = groups - 1, blocks + 1
    found = [Stripe(0, groups, blocks), Stripe(groups * blocks, 1, rest)]
    return [stripe for stripe in found if stripe.groups and stripe.blocks]


# The packed weight of a direct convolution.


def stripe_shapes(
    conv: Convolution, choice: DirectChoice, lanes: int, input_lanes: int, depth: int = 1
) -> list[tuple[Stripe, tuple[int, ...]]]:
    """Return each stripe with the shape of its weight: (groups, ci / VI, *kernel, VI / D, N V D).

    N blocks of V outputs lie side by side. An output's D inputs, which one instruction multiplies, are
    neighbours.
    """
    _groups, ci, _co = merged(conv, lanes)
    inner = (-(-ci // input_lanes), *conv.kernel, input_lanes // depth)
    return [
        (stripe, (stripe.groups, *inner, stripe.blocks * lanes * depth))
        for stripe in stripes(-(-conv.co // lanes), choice.blocks)
    ]


def weight_shape(
    conv: Convolution, choice: DirectChoice, lanes: int, input_lanes: int, depth: int = 1
) -> tuple[int, ...]:
    """Return the shape of the only stripe's weight, or the numbers of all stripes, one behind the other."""
    shapes = [shape for _stripe, shape in stripe_shapes(conv, choice, lanes, input_lanes, depth)]
    return shapes[0] if len(shapes) == 1 else (sum(map(prod, shapes)),)


def pack_weight(
    weight: Array, conv: Convolution, choice: DirectChoice, lanes: int, input_lanes: int, depth: int = 1
) -> Array:
    """Return a weight (co, ci / groups, *kernel), packed in the order in which the function reads it."""
    weight, made = _merge(conv.reached(weight), conv, lanes), []
    for stripe, shape in stripe_shapes(conv, choice, lanes, input_lanes, depth):
        first, wide = stripe.first * lanes, stripe.blocks * lanes
        made.append(_pack(weight[first : first + stripe.groups * wide], shape, wide, input_lanes, depth))
    return made[0] if len(made) == 1 else np.concatenate([each.ravel() for each in made])


def _pack(weight: Array, shape: tuple[int, ...], wide: int, input_lanes: int, depth: int) -> Array:
    """Return the packed weight of a stripe whose groups are `wide` outputs."""
    outer, inner, *kernel, _steps, _row = shape
    beyond = outer * wide - len(weight), inner * input_lanes - weight.shape[1]
    around = [*((0, each) for each in beyond), *((0, 0) for _ in kernel)]
    blocked = np.pad(weight, around).reshape(outer, wide, inner, input_lanes // depth, depth, *kernel)
    taps = range(5, 5 + len(kernel))
    return blocked.transpose(0, 2, *taps, 3, 1, 4).reshape(shape)


def _merge(weight: Array, conv: Convolution, lanes: int) -> Array:
    """Return the weight of the merged groups: block-diagonal, with zeros elsewhere."""
    groups, ci, co = merged(conv, lanes)
    outputs, own = conv.co // conv.groups, weight.shape[1]
    many = co // outputs
    if many == 1:
        return weight
    wide = np.zeros((groups, many, outputs, many, own, *conv.kernel), weight.dtype)
    none = [(0, groups * many * outputs - conv.co), *((0, 0) for _ in weight.shape[1:])]
    split = np.pad(weight, none).reshape(groups, many, outputs, own, *conv.kernel)
    for each in range(many):
        wide[:, each, :, each] = split[:, each]
    return wide.reshape(groups * co, ci, *conv.kernel)[: conv.co]


# Most input numbers per row of a device's tile if they form no vectors. By the model of a Mali, 3 channels,
# 7x7 at stride 2: 4 columns 10.4 ms, 5 columns 9.6, 7 columns 18.4 (many spills); 5 would leave rests in most
# rows. 3x3 at stride 2: 3 columns 2.65 ms, 7 columns 2.02. Groups of several rows: 10.0 ms and 11 spills; of
# one row: 8.3 and 6.
_OF_NUMBERS = 15
_WIDEST = 14  # columns per tile; a row of 28 sums leaves LLVM too few registers (see above)
_LARGE = 28  # smallest image height at which a piece of a few rows is enough work
_ROWS = 8  # largest number of rows per piece without passes; 4 to 8 measured alike
_FEW = 1024  # largest output size at which passes pay: they gain 5 % at 28x28, and lose 3 % from 56x56 on
_SECOND = 1 << 20  # bytes of weights that stay in L2 while rows and images pass through it
_FEWER = 0.9  # tiles of several widths must load so many fewer vectors than tiles of one block
_SHORTEST = 64  # fewest products per sum in a pass, to pay for loading the sum from the output and storing it


def default(conv: Convolution, machine: Machine) -> DirectChoice:
    """Return the choice that builds use without a record."""
    if machine.pieces.fine:
        return _items(conv, machine, machine.tiles.blocks, machine.tiles.columns)
    paired = machine.paired(conv.dtype, 1) is not None
    most = machine.tiles.paired_blocks if paired else machine.tiles.blocks
    count = _output_blocks(conv, machine)

    def of(blocks: int) -> DirectChoice:
        return _choice(conv, machine, blocks, _limit(conv, machine, blocks))

    even = of(next(blocks for blocks in (*most, 1) if count % blocks == 0))
    estimate = _loads if even.blocks == 1 else _waits
    bound = _FEWER * estimate(even, conv, machine)
    others = (choice for choice in map(of, most) if _covers(choice, conv, machine))
    return next((choice for choice in others if estimate(choice, conv, machine) < bound), even)


def _waits(choice: DirectChoice, conv: Convolution, machine: Machine) -> float:
    """Return the time of a vector of products relative to that of tiles whose multiply-adds never wait."""
    if machine.operand == "lane":
        return 1.0
    took = products = 0
    for stripe in stripes(_output_blocks(conv, machine), choice.blocks):
        columns = columns_of_stripe(stripe.blocks, choice, conv, machine)
        for _start, count, size in cut(conv, columns, flat=choice.flat):
            took += count * stripe.groups * max(CHAINS, size * stripe.blocks)
            products += count * stripe.groups * size * stripe.blocks
    return took / products


def _loads(choice: DirectChoice, conv: Convolution, machine: Machine) -> float:
    """Return the vectors that the inner loops load for each vector of products."""
    loaded = products = 0
    inputs = machine.lanes if machine.operand == "lane" else 1  # that one load brings
    for stripe in stripes(_output_blocks(conv, machine), choice.blocks):
        columns = columns_of_stripe(stripe.blocks, choice, conv, machine)
        for _start, count, size in cut(conv, columns, flat=choice.flat):
            loaded += count * stripe.groups * (size + inputs * stripe.blocks)
            products += count * stripe.groups * size * stripe.blocks * inputs
    return loaded / products


def cut(conv: Convolution, columns: int, *, flat: bool) -> list[tuple[int, int, int]]:
    """Return the tiles of a row, or of an image if flat: (start, number of tiles, columns per tile)."""
    width = conv.out[-1]
    unit = width if flat and columns % width == 0 else 1
    return shares(prod(conv.out) if flat else width, columns, unit)


def widest(machine: Machine, blocks: int) -> int:
    """Return the largest number of columns of a tile whose sums stay in registers."""
    limit = min(machine.tiles.columns, machine.columns(blocks))
    return limit if machine.tiles.sums is None else min(limit, machine.tiles.sums // blocks or 1)


def columns_of_stripe(blocks: int, choice: DirectChoice, conv: Convolution, machine: Machine) -> int:
    """Return the most columns of tiles of `blocks` blocks, a stripe of a choice; 0 if none fit."""
    if blocks <= choice.blocks:
        return choice.columns
    columns = min(choice.columns, _limit(conv, machine, blocks))
    width = conv.out[-1]
    return columns // width * width if choice.flat and choice.columns % width == 0 else columns


def _limit(conv: Convolution, machine: Machine, blocks: int) -> int:
    """Return the largest number of columns of a tile for this convolution, see `widest`."""
    limit, tiles = min(widest(machine, blocks), machine.columns_of(conv.dtype, blocks)), machine.tiles
    paired = machine.paired(conv.dtype, blocks)
    if paired is not None:
        return max(1, paired - 1) if machine.in_order and conv.stride[-1] > 1 else paired
    if conv.ci // conv.groups >= machine.lanes:
        if tiles.pointwise is not None and prod(conv.kernel) == 1:
            return min(_WIDEST, machine.columns(blocks), max(1, tiles.pointwise // blocks))
        if tiles.strided is not None and conv.kernel[-1] > 1 and conv.stride[-1] > 1:
            return min(limit, max(1, tiles.strided // blocks))
    return limit


def _flattens(conv: Convolution, machine: Machine) -> bool:
    """Return whether tiles may span the end of one row and the begin of the next (it costs divisions)."""
    plain = prod(conv.kernel) == prod(conv.stride) == 1 and not any(conv.pads)
    return (
        machine.tiles.flattens and machine.products_of(conv.dtype).parts == 1 and len(conv.out) == 2 and plain
    )


def candidates(conv: Convolution, machine: Machine) -> list[DirectChoice]:
    """Return the choices that a tuner may measure, the default first."""
    first = default(conv, machine)
    space = _items_space if machine.pieces.fine else _space
    found = [first, *space(conv, machine, first)]
    return [choice for choice in dict.fromkeys(found) if legal(choice, conv, machine)]


def legal(choice: DirectChoice, conv: Convolution, machine: Machine) -> bool:
    """Return whether a choice computes a convolution without spills."""
    if min(choice.blocks, choice.columns, choice.rows) < 1 or choice.depth < 0:
        return False
    if machine.pieces.fine:
        divides = _output_blocks(conv, machine) % choice.blocks == 0
        held = choice.columns <= machine.columns(choice.blocks)
        plain = choice.depth == 0 and choice.rows == 1 and not choice.flat
        return divides and held and plain and fits(choice.group, machine)
    if choice.rows > 1 and (len(conv.out) == 1 or choice.flat or conv.out[-2] % choice.rows):
        return False
    whole_rows = len(conv.out) == 2 and choice.columns % conv.out[-1] == 0
    inner, waits = _input_blocks(conv, machine), machine.products_of(conv.dtype).plain
    return (
        _covers(choice, conv, machine)
        and choice.columns <= _limit(conv, machine, choice.blocks)
        and (whole_rows or not choice.flat or _flattens(conv, machine))
        and (choice.depth == 0 or (waits and choice.depth < inner and inner % choice.depth == 0))
    )


def _covers(choice: DirectChoice, conv: Convolution, machine: Machine) -> bool:
    """Return whether tiles of a choice's blocks cover the output, see `stripes`."""
    count = _output_blocks(conv, machine)
    if count % choice.blocks == 0:
        return True
    first, *others = stripes(count, choice.blocks)
    return (
        merged(conv, machine.lanes)[0] == 1
        and first.blocks == choice.blocks
        and all(columns_of_stripe(each.blocks, choice, conv, machine) for each in others)
    )


def _choice(conv: Convolution, machine: Machine, blocks: int, limit: int) -> DirectChoice:
    across = sum(stripe.groups for stripe in stripes(_output_blocks(conv, machine), blocks))
    groups = conv.batch * across * merged(conv, machine.lanes)[0]
    weights = machine.size(conv.dtype) * prod(conv.kernel) * conv.co * conv.ci // conv.groups
    large = len(conv.out) > 1 and conv.out[-2] >= _LARGE
    flat = len(conv.out) == 2 and 2 * conv.out[-1] <= limit
    columns = min(limit // conv.out[-1], conv.out[0]) * conv.out[-1] if flat else min(limit, conv.out[-1])
    if _flattens(conv, machine) and conv.out[-1] < 2 * limit and conv.out[-1] % limit:
        flat, columns = True, min(limit, prod(conv.out))
    waits = machine.products_of(conv.dtype).plain  # the output can hold a sum until the next pass
    passes = machine.prefetches and waits and weights >= STAYS and prod(conv.out) <= _FEW
    rows = 1 if flat else rows_of_piece(conv, machine, groups, MOST_ROWS if passes else _ROWS)
    one = columns >= prod(conv.out) if flat else rows == 1 and columns >= conv.out[-1]
    return DirectChoice(
        blocks,
        columns,
        rows,
        order="rows" if (large or conv.batch > 1) and weights <= _SECOND else "channels",
        flat=flat,
        depth=0 if one or not passes else _depth(conv, machine, blocks),
    )


def _items(conv: Convolution, machine: Machine, most: Sequence[int], columns: int) -> DirectChoice:
    """Return the tile of a work item, with the first of the block counts `most` that divides the output's."""
    count = _output_blocks(conv, machine)
    blocks = next((each for each in most if count % each == 0), 1)
    if conv.ci // conv.groups >= machine.lanes:
        wide = columns_of(conv.out[-1], max(1, columns // blocks))
        return DirectChoice(blocks, wide, loads=machine.loads)
    columns = min(columns, max(0, _OF_NUMBERS - conv.kernel[-1]) // conv.stride[-1] + 1)
    wide = columns_of(conv.out[-1], max(1, columns // blocks))
    group = group_of_row(conv.out[-1] // wide, machine)
    return DirectChoice(blocks, wide, loads=machine.loads, group=group)


def _items_space(conv: Convolution, machine: Machine, first: DirectChoice) -> Iterator[DirectChoice]:
    orders: tuple[Loads, ...] = ("weights", "inputs")
    for blocks in (1, 2, 4):
        for columns in column_choices(conv.out[-1], blocks, machine):
            for loads in orders:
                yield replace(first, blocks=blocks, columns=columns, loads=loads)
    for group in group_choices(machine):
        yield replace(first, group=group)


def _space(conv: Convolution, machine: Machine, first: DirectChoice) -> Iterator[DirectChoice]:
    count = _output_blocks(conv, machine)
    for blocks in (2, 3, 4, 5, 6, 1):
        if count % blocks == 0 or count % first.blocks:
            limit = _limit(conv, machine, blocks)
            for columns in (limit, limit - 1, limit - 2, limit // 2):
                if columns >= 1:
                    yield _choice(conv, machine, blocks, columns)
    yield replace(first, order="channels" if first.order == "rows" else "rows")
    for depth in (0, first.depth // 2, 2 * first.depth, _depth(conv, machine, first.blocks)):
        yield replace(first, depth=depth)
    for rows in (1, 2, 4, 7, 14, 28):
        yield replace(first, rows=rows)


def _output_blocks(conv: Convolution, machine: Machine) -> int:
    """Return the number of output blocks of a group."""
    return -(-merged(conv, machine.lanes)[2] // machine.lanes)


def _input_blocks(conv: Convolution, machine: Machine) -> int:
    """Return the number of input blocks of a group; 1 if channels are not packed."""
    ci = merged(conv, machine.lanes)[1]
    return -(-ci // machine.lanes) if ci >= machine.lanes else 1


def _depth(conv: Convolution, machine: Machine, blocks: int) -> int:
    """Return how many input blocks have weights that fit L1; 0 if all do, or too few to pay off."""
    count, taps = _input_blocks(conv, machine), prod(conv.kernel)
    block = machine.size(conv.dtype) * taps * machine.lanes * machine.lanes * blocks
    fit = max(1, machine.near // block)
    depth = max(each for each in range(1, count + 1) if count % each == 0 and each <= fit)
    return 0 if depth == count or depth * taps * machine.lanes < _SHORTEST else depth
