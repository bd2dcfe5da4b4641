"""Skips the taps of a transposed convolution that meet only padding, if that pays.

A generator's first layer makes an image from one place with 4x4 taps: 15 of 16 products meet padding.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.sym import Analyzer

from toolchain.backends.packed.recognise.read import Expr
from toolchain.backends.packed.recognise.transposed import OutputPhase, Transposed

_WORTH = 1 / 8  # smallest share of skipped products on an axis that pays for the test


def inside(
    conv: Transposed,
    phase: Sequence[OutputPhase],
    place: Sequence[Expr],
    columns: int,
    taps: Sequence[Expr],
    analyzer: Analyzer,
) -> Expr | None:
    """Return the condition that a phase's taps meet the image for a tile; None if the test does not pay.

    Parameters
    ----------
    place
        Position of the tile's first column within the phase.
    """
    found: list[Expr] = []
    for axis, (each, own, tap) in enumerate(zip(phase, place, taps, strict=True)):
        wide = columns if axis == len(phase) - 1 else 1
        if _share(conv, axis, each, wide) >= _WORTH:
            start = own + each.offset - tap * each.back
            found += [analyzer.simplify(start + (wide - 1) >= 0), analyzer.simplify(start < conv.size[axis])]
    return tirx.all(*found) if found else None


def _share(conv: Transposed, axis: int, phase: OutputPhase, columns: int) -> float:
    """Return the share of an axis's taps that meet only padding, for tiles of `columns` phase outputs."""
    starts = [
        place + phase.offset - tap * phase.back
        for place in range(0, conv.places(axis, phase), columns)
        for tap in range(phase.taps)
    ]
    beside = sum(start + columns - 1 < 0 or start >= conv.size[axis] for start in starts)
    return beside / max(1, len(starts))
