"""Sums of products in registers.

float16 products are summed up in float16, at twice the rate of float32. A long sum loses small products (the
error grows with the square root of their number), so partial sums of up to `_PART` products are added up in
float32, in memory. Largest errors of ResNet-18's outputs relative to their largest (the manifest allows 2e-2)
for parts of 2, 16, 32, 64, 96 products: 7.5e-3, 6.5e-3, 5.9e-3, 6.7e-3 and 1.3e-2 with images of 64 x 64; for
parts of 2, 8, 32, 128 and all: 7.4e-3, 8.5e-3, 9.8e-3, 1.35e-2 and 2.5e-2 with 224 x 224.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.read import Expr

_PART = 64


class Sums:
    """The sums of a tile: for each block a buffer of `vectors` vectors with `lanes` sums.

    Parameters
    ----------
    dtype
        Type of the products.
    count
        Number of products per sum.

    Attributes
    ----------
    registers
        Buffers to which products are added, one per block.
    totals
        Buffers of the complete sums; the same buffers if there are no partial sums.
    """

    def __init__(self, nest: Nest, blocks: int, vectors: int, lanes: int, dtype: str, count: int) -> None:
        self.nest, self.vectors, self.lanes, self.dtype = nest, vectors, lanes, dtype
        self.registers = [self.nest.local((vectors * lanes,), dtype) for _ in range(blocks)]
        self.totals = self.registers
        if dtype == "float16" and count > _PART:
            self.totals = [self.nest.local((vectors * lanes,), "float32") for _ in range(blocks)]

    def clear(self) -> None:
        """Emit stores of zero to all sums."""
        self._clear(self.totals)

    @contextmanager
    def loops(self, extents: Sequence[int], each: int) -> Iterator[Sequence[Expr]]:
        """Emit loops around code that adds `each` products to every register; yield the place per axis."""
        if self.totals is self.registers:
            with self.nest.grid(extents) as steps:
                yield steps
            return
        cut = _cut(extents, each)
        with self.nest.grid([extent // inner for extent, inner in zip(extents, cut, strict=True)]) as parts:
            self._clear(self.registers)
            with self.nest.grid(cut) as steps:
                yield [
                    self.nest.simplify(part * inner + step)
                    for part, inner, step in zip(parts, cut, steps, strict=True)
                ]
            for part_of, total in zip(self.registers, self.totals, strict=True):
                with self.nest.unroll(self.vectors) as row, self.nest.vector(self.lanes) as lane:
                    here = row * self.lanes + lane
                    ir.buffer_store(total, total[here] + part_of[here].astype("float32"), [here])

    def shares(self, extent: int) -> list[tuple[int, int]]:
        """Return parts of an axis of single products, which need not have a divisor: (start, count)."""
        full = 0 if self.totals is self.registers else extent // _PART * _PART
        return [(start, count) for start, count in ((0, full), (full, extent - full)) if count]

    def _clear(self, sums: Sequence[tirx.Buffer]) -> None:
        for total in sums:
            zero = tirx.const(0, str(total.dtype))
            with self.nest.unroll(self.vectors) as row, self.nest.vector(self.lanes) as lane:
                ir.buffer_store(total, zero, [row * self.lanes + lane])


def _cut(extents: Sequence[int], each: int) -> list[int]:
    """Return how much of each axis a partial sum covers, beginning with the last axes."""
    found: list[int] = []
    left = max(1, _PART // each)
    for extent in reversed(extents):
        inner = max(size for size in range(1, min(extent, left) + 1) if extent % size == 0)
        found.insert(0, inner)
        left = left // inner if inner == extent else 1
    return found
