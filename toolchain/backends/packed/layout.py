"""The packed layout of values between functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tvm.sym import Analyzer

from toolchain.arrays import Array
from toolchain.backends.packed.recognise.read import Expr


@dataclass(frozen=True, order=True)
class Layout:
    """Channels in blocks, the block's channels innermost: (n, c / lanes, *spatial, lanes).

    The last block is padded with zeros if it is not full. The producer writes a halo around the spatial axes,
    of zeros or the zero point of integers, so that a convolution's padding costs its consumer nothing.

    Attributes
    ----------
    lanes
        Channels of a block; fewer than usual for a network's input with few channels.
    halo
        Padding before each spatial axis, then after each, in ONNX's order of pads.
    offset, whole
        For a part of a concatenation: its first block in the buffer, and the number of blocks of the buffer;
        `whole` = 0: the value has a buffer of its own.
    fill
        Number in the halo.
    """

    lanes: int
    halo: tuple[int, ...]
    offset: int = 0
    whole: int = 0
    fill: int = 0

    @property
    def before(self) -> tuple[int, ...]:
        """Padding before each spatial axis."""
        return self.halo[: len(self.halo) // 2]

    @property
    def after(self) -> tuple[int, ...]:
        """Padding after each spatial axis."""
        return self.halo[len(self.halo) // 2 :]

    def blocks(self, channels: int) -> int:
        """Return the number of blocks for `channels` channels."""
        return -(-channels // self.lanes)

    def shape(self, logical: Sequence[int]) -> tuple[int, ...]:
        """Return the packed shape of a value of logical shape (n, c, *spatial)."""
        n, c, *spatial = logical
        padded = (
            size + before + after
            for size, before, after in zip(spatial, self.before, self.after, strict=True)
        )
        return (n, self.whole or self.blocks(c), *padded, self.lanes)

    def at(self, index: Sequence[Expr], analyzer: Analyzer) -> list[Expr]:
        """Return the packed index of the element at a logical index."""
        n, c, *spatial = index
        moved = [
            analyzer.simplify(place + before) for place, before in zip(spatial, self.before, strict=True)
        ]
        block = analyzer.simplify(c // self.lanes + self.offset)
        return [n, block, *moved, analyzer.simplify(c % self.lanes)]

    def pack(self, value: Array) -> Array:
        """Return a value of logical shape, packed in this layout."""
        blocks = [(0, 0), (0, -value.shape[1] % self.lanes), *((0, 0) for _ in value.shape[2:])]
        around = [(0, 0), (0, 0), *zip(self.before, self.after, strict=True)]
        padded = np.pad(np.pad(value, blocks), around, constant_values=self.fill)
        n, c, *spatial = padded.shape
        blocked = padded.reshape(n, c // self.lanes, self.lanes, *spatial)
        return np.copy(np.moveaxis(blocked, 2, -1), order="C")

    def unpack(self, value: Array, logical: Sequence[int]) -> Array:
        """Return the logical value of a packed one."""
        n, c, *spatial = logical
        blocked = np.moveaxis(value, -1, 2)
        flat = blocked.reshape(n, -1, *blocked.shape[3:])
        inner = tuple(slice(before, before + size) for before, size in zip(self.before, spatial, strict=True))
        return np.ascontiguousarray(flat[(slice(None), slice(c), *inner)])


Layouts: TypeAlias = Sequence["Layout | None"]
"""Layout of every parameter of a function; None for a plain one."""


def dense_layout(lanes: int, rank: int) -> Layout:
    """Return the packed layout without halo for values of a rank."""
    return Layout(lanes, (0,) * (2 * (rank - 2)))
