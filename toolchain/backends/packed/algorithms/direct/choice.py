"""The choice of the algorithm `direct`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.sym import Analyzer

from toolchain.backends.packed.algorithms.algorithm import Choice, Order
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr


@dataclass(frozen=True)
class DirectChoice(Choice):
    """A register tile of sums, and the order in which tiles are computed.

    Attributes
    ----------
    blocks, columns
        Size of a tile: output blocks and output columns.
    rows
        Output rows of one parallel piece of work.
    order
        Outer parallel axis.
    flat
        Whether a tile may span several rows: whole rows of a small image, or the end of one row and the begin
        of the next.
    depth
        Input blocks per pass: their products are added for all tiles of a piece before the next pass; 0: one
        pass with all.
    """

    algorithm = "direct"
    blocks: int = 1
    columns: int = 1
    rows: int = 1
    order: Order = "rows"
    flat: bool = False
    depth: int = 0


# Skips the taps of a kernel that read only padding, for a row of outputs or a tile of columns.
#
# With a large dilation that saves much work: of 3x3 at dilation 12 on 16x16, a quarter of the products meet
# the image. Padding of skipped taps needs no halo.

_WORTH = 1 / 8  # smallest share of skipped products on an axis that pays for the test; 3x3 on 14x14: 1 / 21


def guarded(conv: Convolution, choice: DirectChoice) -> list[bool]:
    """Return for each axis but the last whether taps beyond the image are skipped, so it needs no halo."""
    if choice.flat:
        return [False] * (len(conv.out) - 1)
    return [_share(conv, axis, 1) >= _WORTH for axis in range(len(conv.out) - 1)]


def halo(conv: Convolution, choice: DirectChoice) -> tuple[int, ...]:
    """Return the zeros that a direct convolution reads around its input."""
    skips = [*guarded(conv, choice), False] * 2
    return tuple(0 if skip else pad for skip, pad in zip(skips, conv.pads, strict=True))


def inside(
    conv: Convolution,
    choice: DirectChoice,
    place: Sequence[Expr],
    columns: int,
    taps: Sequence[Expr],
    analyzer: Analyzer,
) -> Expr | None:
    """Return the condition that the taps meet the image for a tile; None if the test does not pay.

    Parameters
    ----------
    place
        Position of the tile's first column.
    taps
        Taps on the first axes, or on all.
    """
    if choice.flat:
        return None
    found: list[Expr] = []
    skips = [*guarded(conv, choice), _share(conv, len(conv.out) - 1, columns) >= _WORTH]
    for axis in (axis for axis in range(len(taps)) if skips[axis]):
        last = (columns - 1) * conv.stride[axis] if axis == len(skips) - 1 else 0
        start = place[axis] * conv.stride[axis] + taps[axis] * conv.dilation[axis] - conv.pads[axis]
        found += [analyzer.simplify(start + last >= 0), analyzer.simplify(start < conv.size[axis])]
    return tirx.all(*found) if found else None


def _share(conv: Convolution, axis: int, columns: int) -> float:
    """Return the share of an axis's taps that read only zeros around the image, for tiles of `columns`."""
    if conv.outside:
        return 0.0
    out, stride, before = conv.out[axis], conv.stride[axis], conv.pads[axis]
    starts = [
        (tile * stride + tap * conv.dilation[axis] - before)
        for tile in range(0, max(1, out - columns + 1), columns)
        for tap in range(conv.kernel[axis])
    ]
    last = (columns - 1) * stride
    return sum(start + last < 0 or start >= conv.size[axis] for start in starts) / len(starts)
