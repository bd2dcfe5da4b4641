"""Tiles of the direct generators: what a core's registers hold."""

from __future__ import annotations

from toolchain.building.cpu.choice import Choice
from toolchain.building.cpu.convolution import Convolution
from toolchain.building.cpu.core import Core

_LARGE = 28  # rows from which on a parallel piece can be a few rows


def direct_tile(conv: Convolution, core: Core) -> Choice:
    """Return how a convolution without groups is computed directly."""
    blocks = 2 if -(-conv.co // core.lanes) % 2 == 0 else 1
    limit = _columns_of(core)
    large = len(conv.out) > 1 and conv.out[-2] >= _LARGE
    if conv.kernel == (1, 1) and conv.stride == (1, 1) and conv.out[-1] < limit:
        count = conv.out[0] * conv.out[1]
        tiles = -(-count // limit)
        return Choice("direct", blocks, -(-count // tiles), order="channels", flat=True)
    return Choice(
        "direct", blocks, _columns(conv.out[-1], limit), _rows(conv), order="rows" if large else "channels"
    )


def depthwise_tile(conv: Convolution, core: Core) -> Choice:
    """Return how a depthwise convolution is computed."""
    return Choice("depthwise", columns=_columns(conv.out[-1], 14), rows=_rows(conv))


def _columns_of(core: Core) -> int:
    """Columns of a tile of two blocks that leave registers for the operands."""
    if core.form == "lanes":
        return 8 if core.registers == 32 else 4
    return 14 if core.registers == 32 else 4


def _columns(width: int, limit: int) -> int:
    """Return the largest divisor of the width from 4 to `limit`, or else `limit`."""
    for columns in range(min(width, limit), 3, -1):
        if width % columns == 0:
            return columns
    return min(width, limit)


def _rows(conv: Convolution) -> int:
    return 4 if len(conv.out) > 1 and conv.out[-2] >= _LARGE and conv.out[-2] % 4 == 0 else 1
