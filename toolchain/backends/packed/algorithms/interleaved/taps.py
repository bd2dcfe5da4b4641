"""Taps of a transposed convolution that meet only the zeros around the image are skipped, where that pays.

Of a picture made from one place by 4x4 taps, as generators begin, 15 of 16 products are such.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.sym import Analyzer

from toolchain.backends.packed.recognise.read import Expr
from toolchain.backends.packed.recognise.transposed import Phase, Transposed

_WORTH = 1 / 8  # of an axis's products, from which on it pays to ask


def inside(
    conv: Transposed,
    phase: Sequence[Phase],
    place: Sequence[Expr],
    columns: int,
    taps: Sequence[Expr],
    analyzer: Analyzer,
) -> Expr | None:
    """Return under which condition a phase's taps meet the image for a tile; None: it is not worth asking.

    Parameters
    ----------
    place
        Of the tile's first column, among the phase's.
    """
    found: list[Expr] = []
    for axis, (each, own, tap) in enumerate(zip(phase, place, taps, strict=True)):
        wide = columns if axis == len(phase) - 1 else 1
        if _share(conv, axis, each, wide) >= _WORTH:
            start = own + each.offset - tap * each.back
            found += [analyzer.simplify(start + (wide - 1) >= 0), analyzer.simplify(start < conv.size[axis])]
    return tirx.all(*found) if found else None


def _share(conv: Transposed, axis: int, phase: Phase, columns: int) -> float:
    """Return which share of an axis's taps meets zeros alone, for tiles of so many outputs of a phase."""
    starts = [
        place + phase.offset - tap * phase.back
        for place in range(0, conv.places(axis, phase), columns)
        for tap in range(phase.taps)
    ]
    beside = sum(start + columns - 1 < 0 or start >= conv.size[axis] for start in starts)
    return beside / max(1, len(starts))
