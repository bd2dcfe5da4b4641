"""Which taps of a kernel read nothing but padding, for a row of outputs or a tile of columns.

Where dilation is large that is much of the work: 3x3 at dilation 12 on 16x16 meets the image with a quarter
of its products. What is skipped needs no halo either.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.sym import Analyzer

from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr

_WORTH = 1 / 8  # of an axis's products, from which on it pays to ask; 3x3 on 14x14 has 1 / 21


def guarded(conv: Convolution, choice: DirectChoice) -> list[bool]:
    """Return per axis but the last whether taps beyond the image are skipped: its halo is not read."""
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
    """Return the condition under which taps meet the image for a tile; None: it is not worth asking.

    Parameters
    ----------
    place
        Of the tile's first column.
    taps
        On the first axes, or on all.
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
    """Return which share of an axis's taps reads padding alone, for tiles of so many outputs."""
    out, stride, before = conv.out[axis], conv.stride[axis], conv.pads[axis]
    starts = [
        (tile * stride + tap * conv.dilation[axis] - before)
        for tile in range(0, max(1, out - columns + 1), columns)
        for tap in range(conv.kernel[axis])
    ]
    last = (columns - 1) * stride
    return sum(start + last < 0 or start >= conv.size[axis] for start in starts) / len(starts)
