"""The matrices of Winograd's F(m, k), and their products with vectors of expressions.

m outputs of a kernel of k taps are coefficients of a product of polynomials. They are found from its values
at m + k - 1 points (Toom and Cook; Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
2015): y = A^T [(G g) * (B^T d)].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm, prod

import numpy as np
from tvm import tirx

from toolchain.arrays import Array, transformed
from toolchain.backends.packed.algorithms.algorithm import Choice, Order, knob
from toolchain.backends.packed.dot_products import Products
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr

# The choice of the algorithm `winograd`.


@dataclass(frozen=True)
class WinogradChoice(Choice):
    """A winograd transform, the register tile of the products between its halves, and the order of the work.

    Attributes
    ----------
    blocks, columns
        Size of the register tile of the products: output blocks and tiles of outputs.
    tile_rows
        Rows of tiles in one parallel piece of work.
    tile
        Outputs computed together along each spatial axis, m of F(m, k); 1 means no transform along the axis:
        its taps are summed up directly.
    order
        Outer parallel axis.
    """

    algorithm = "winograd"
    blocks: int = 1
    columns: int = 1
    tile_rows: int = knob("rows", 1)
    tile: tuple[int, ...] = ()
    order: Order = "rows"


Row = tuple[Fraction, ...]

# The finite points, by the number of all points with infinity. For a pair a, -a the odd and the even terms
# are computed once, and every number of the matrices is exact in float32. Of the point sets tried, these had
# the smallest errors for sums over 64 channels of random numbers: with 3 x 3 taps and 5, 6 and 8 points a
# third, a quarter and half of the errors of the usual 0, 1, -1, 2, -2, 1/2, -1/2.
_POINTS = {
    4: ("0", "1", "-1"),
    5: ("0", "3/4", "-3/4", "-3/2"),
    6: ("0", "3/4", "-3/4", "3/2", "-3/2"),
    8: ("0", "1", "-1", "7/4", "-7/4", "9/16", "-9/16"),
}


def sizes(taps: int) -> tuple[int, ...]:
    """Return each m > 1 for which code for F(m, taps) is generated; none for a single tap."""
    return tuple(points - taps + 1 for points in _POINTS if 1 < taps < points)


@dataclass(frozen=True)
class Matrices:
    """The exact transforms of F(m, k).

    Attributes
    ----------
    inputs
        B^T, (m + k - 1, m + k - 1); (1, 1) for m = 1.
    filters
        G, (m + k - 1, k); (k, k) for m = 1.
    outputs
        A^T, (m, m + k - 1); (1, 1) for m = 1.
    """

    inputs: tuple[Row, ...]
    filters: tuple[Row, ...]
    outputs: tuple[Row, ...]


@cache
def matrices(m: int, taps: int) -> Matrices:
    """Return the transforms of F(m, taps).

    For m = 1 they change nothing: each tap, a row of `filters`, is multiplied by an input of its own.
    """
    zero, one = Fraction(0), Fraction(1)
    if m == 1:
        each = tuple(tuple(Fraction(tap == place) for place in range(taps)) for tap in range(taps))
        return Matrices(((one,),), each, ((one,),))
    points = [Fraction(point) for point in _POINTS[m + taps - 1]]
    inputs, filters = [], []
    for point in points:
        others = [other for other in points if other != point]
        scale = prod((point - other for other in others), start=one)
        inputs.append((*_polynomial(others), zero))
        filters.append(tuple(point**power / scale for power in range(taps)))
    inputs.append(_polynomial(points))
    filters.append((*[zero] * (taps - 1), one))
    outputs = [(*(point**power for point in points), Fraction(power == m - 1)) for power in range(m)]
    return Matrices(tuple(inputs), tuple(filters), tuple(outputs))


def points(kernel: Sequence[int], tile: Sequence[int]) -> tuple[int, ...]:
    """Return the number of multiplication points of a tile along each axis; 1 where m is 1."""
    return tuple(m + taps - 1 if m > 1 else 1 for m, taps in zip(tile, kernel, strict=True))


def summed(kernel: Sequence[int], tile: Sequence[int]) -> int:
    """Return the number of taps that are summed up without a transform: those of axes with m = 1."""
    return prod(taps for m, taps in zip(tile, kernel, strict=True) if m == 1)


def shift(kernel: Sequence[int], tile: Sequence[int]) -> int | None:
    """Return by how many bits the weights of a tile are shifted to be integers; None if no shift does that.

    The transforms of inputs and outputs have to be sums and differences: F(2, k) with the points 0, 1, -1.
    """
    bits = 0
    for made in map(matrices, tile, kernel):
        numbers = [number for row in (*made.inputs, *made.outputs) for number in row]
        size = lcm(*(number.denominator for row in made.filters for number in row))
        if any(abs(number) not in (0, 1) for number in numbers) or size & (size - 1):
            return None
        bits += size.bit_length() - 1
    return bits


def _polynomial(roots: Sequence[Fraction]) -> Row:
    """Return the coefficients of the monic polynomial with these roots, beginning with x^0."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        found = [high - root * low for high, low in zip(shifted, [*found, Fraction(0)], strict=True)]
    return tuple(found)


def applied(matrix: Sequence[Row], values: Sequence[Expr]) -> list[Expr]:
    """Return the product of a matrix and a vector of expressions.

    If columns, or rows, differ only in the signs of some terms, their sum and difference are computed once:
    the compiler sees the same expression twice.
    """
    matrix, values = _columns_paired(matrix, values)
    found: dict[int, Expr] = {}
    for place, row in enumerate(matrix):
        for other in range(place + 1, len(matrix)):
            pairs = list(zip(row, matrix[other], strict=True))
            same = [a if a == b else Fraction(0) for a, b in pairs]
            opposite = [a if a == -b else Fraction(0) for a, b in pairs]
            if other not in found and any(same) and any(opposite) and all(abs(a) == abs(b) for a, b in pairs):
                left, right = _sum(same, values), _sum(opposite, values)
                found[place], found[other] = left + right, left - right
        if place not in found:
            found[place] = _sum(row, values)
    return [found[place] for place in range(len(matrix))]


def _columns_paired(matrix: Sequence[Row], values: Sequence[Expr]) -> tuple[Sequence[Row], Sequence[Expr]]:
    """Replace two columns that differ only in sign by columns for the sum and difference of their values."""
    columns = list(zip(*matrix, strict=True))
    for first, left in enumerate(columns):
        for second, right in enumerate(columns[:first]):
            same = tuple(a if a == b else Fraction(0) for a, b in zip(left, right, strict=True))
            if all(abs(a) == abs(b) for a, b in zip(left, right, strict=True)) and same != left:
                opposite = tuple(a - b for a, b in zip(right, same, strict=True))
                kept = [place for place in range(len(columns)) if place not in (first, second)]
                rest = [columns[place] for place in kept]
                x, y = values[second], values[first]
                return _columns_paired(
                    list(zip(*rest, same, opposite, strict=True)), [*(values[k] for k in kept), x + y, x - y]
                )
    return matrix, values


def _sum(row: Sequence[Fraction], values: Sequence[Expr]) -> Expr:
    """Return the sum of the terms; terms without a factor come first, so the others are multiply-adds."""
    terms = [(factor, value) for factor, value in zip(row, values, strict=True) if factor]
    terms.sort(key=lambda term: (abs(term[0]) != 1, term[0] < 0))
    total: Expr | None = None
    for factor, value in terms:
        term = value if abs(factor) == 1 else value * tirx.const(float(abs(factor)), str(value.ty.dtype))
        if total is None:
            total = term if factor > 0 else -term
        else:
            total = total + term if factor > 0 else total - term
    if total is None:
        raise ValueError("a row of zeros")
    return total


# The tiles that winograd can use, the halo they need, and the transformed weight.


def tiles_of(conv: Convolution) -> list[tuple[int, ...]]:
    """Return the tiles that a convolution can be computed in; none where winograd does not apply.

    It has one group, and stride and dilation 1. Its tiles are squares, or of one row, or (of a kernel that
    has one column) of one column.
    """
    if len(conv.kernel) != 2 or conv.groups != 1 or {*conv.stride, *conv.dilation} != {1}:
        return []
    high, wide = map(sizes, conv.kernel)
    squares = [(m, m) for m in high if m in wide]
    columns = [(m, 1) for m in high if conv.kernel[1] == 1]
    return [*squares, *((1, m) for m in wide), *columns]


def halo(conv: Convolution, tile: tuple[int, ...]) -> tuple[int, ...]:
    """Return the zeros needed around the input so that every tile is inside it."""
    after = (
        max(0, -(-out // m) * m + taps - 1 - size - before)
        for out, m, taps, size, before in zip(conv.out, tile, conv.kernel, conv.size, conv.pads, strict=False)
    )
    return (*conv.pads[:2], *after)


def weight_shape(conv: Convolution, choice: WinogradChoice, lanes: int, depth: int = 1) -> tuple[int, ...]:
    """Return (co / (N V), points, ci in full blocks * taps without transform / D, N V D).

    An output's D inputs, which one instruction multiplies, are neighbours.
    """
    wide = choice.blocks * lanes
    inner = -(-conv.ci // lanes) * lanes * summed(conv.kernel, choice.tile)
    return (-(-conv.co // wide), prod(points(conv.kernel, choice.tile)), inner // depth, wide * depth)


def pack_weight(
    weight: Array, conv: Convolution, choice: WinogradChoice, lanes: int, products: Products
) -> Array:
    """Return a weight (co, ci, *kernel), transformed and packed in the order in which it is read.

    One of integers is shifted by `transforms.shift`, so that it is of integers too.
    """
    depth, plain = products.depth, products.plain
    bits = 0 if plain else shift(conv.kernel, choice.tile)
    if bits is None:
        raise ValueError(f"tiles of {choice.tile} have no transform in integers")
    outer, count, _inner, wide = weight_shape(conv, choice, lanes)
    padded = np.pad(conv.reached(weight), [(0, -conv.co % wide), (0, -conv.ci % lanes), (0, 0), (0, 0)])
    moved = transformed(padded, *(made.filters for made in map(matrices, choice.tile, conv.kernel)))
    taps = summed(conv.kernel, choice.tile)  # of the first axis, if it has no transform
    blocked = moved.reshape(outer, wide, -1, lanes // depth, depth, taps, count)
    shape = weight_shape(conv, choice, lanes, depth)
    ordered = np.copy(blocked.transpose(0, 6, 5, 2, 3, 1, 4), order="C").reshape(shape)
    return ordered if plain else (ordered * np.float32(2.0**bits)).astype(products.stored)
