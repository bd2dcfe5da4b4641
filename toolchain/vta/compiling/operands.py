"""Makes the LOADs and STOREs of a piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design.config import Sram
from toolchain.vta.isa import Load, Store


@dataclass(frozen=True)
class Span:
    """Rows or columns of the source that a piece needs, with the padding outside of the source.

    Attributes
    ----------
    before, after
        Number of padded (zero) rows or columns before and after.
    first, count
        Index of the first one inside the source, and the number of those inside.
    """

    before: int
    first: int
    count: int
    after: int


def span(start: int, count: int, step: int, limit: int) -> Span:
    """Return the part of `count` indices from `start` with stride `step` that is inside `range(limit)`."""
    before = min(count, max(0, -(start // step)))
    end = min(count, max(0, -((start - limit) // step)))
    return Span(before, start + before * step, end - before, count - end)


def input_loads(cut: Tiling, chunk: int, y: int, x: int, sram: int, dram: int) -> Iterator[tuple[Load, int]]:
    """Yield the LOADs of a chunk of input channels, each with the number of elements that it writes.

    Parameters
    ----------
    y, x
        First row and column of the piece, in the result.
    sram, dram
        First element to write on the chip, and first element of the source in DRAM.
    """
    shape, step = cut.shape, cut.row_step
    rows = span(y * shape.sh - shape.ph, cut.rows, step, shape.h)
    columns = span(x * shape.sw - shape.pw, cut.columns, 1, shape.w)
    image = shape.h * shape.w
    blocks = cut.knobs.tile_ci
    first = dram + chunk * blocks * image + rows.first * shape.w + columns.first
    whole = columns.count == shape.w == cut.columns and rows.count == cut.rows
    run = rows.count * shape.w
    if whole and step == 1 and max(image, run) <= cut.most_stride:
        yield Load(Sram.INP, sram, first, blocks, run, image), blocks * run
        return
    size = cut.rows * cut.columns
    for block in range(blocks):
        yield (
            Load(
                Sram.INP,
                sram + block * size,
                first + block * image,
                rows.count,
                columns.count,
                step * shape.w if rows.count > 1 else columns.count,
                rows.before,
                rows.after,
                columns.before,
                columns.after,
            ),
            size,
        )


def weight_load(cut: Tiling, co: int, chunk: int, sram: int, dram: int) -> tuple[Load, int]:
    """Return the LOAD of a tile of weights, and the number of elements that it writes.

    Parameters
    ----------
    co
        First block of output channels.
    """
    size = cut.wgt_elements
    tile = co // cut.knobs.tile_co * cut.chunks + chunk
    return Load(Sram.WGT, sram, dram + tile * size, 1, size, size), size


def result_rows(
    cut: Tiling, block: int, blocks: int, y: int, x: int, dram: int
) -> list[tuple[int, int, int, int, int]]:
    """Return the transfers that move a piece of a tensor with the result's shape.

    Parameters
    ----------
    block, blocks
        First block of channels, and the number of blocks.

    Returns
    -------
    list
        For each transfer: first element on the chip; first element in DRAM; number of rows; elements in
        a row; stride between rows in DRAM, in elements.
    """
    shape, knobs = cut.shape, cut.knobs
    image = shape.oh * shape.ow
    first = dram + block * image + y * shape.ow + x
    if knobs.tile_w == shape.ow:
        if cut.pixels == image and blocks * image <= cut.most_stride:
            return [(0, first, 1, blocks * image, blocks * image)]
        if image <= cut.most_stride:
            return [(0, first, blocks, cut.pixels, image)]
        return [(n * cut.pixels, first + n * image, 1, cut.pixels, cut.pixels) for n in range(blocks)]
    stride = shape.ow if knobs.tile_h > 1 else knobs.tile_w
    return [(n * cut.pixels, first + n * image, knobs.tile_h, knobs.tile_w, stride) for n in range(blocks)]


def residual_loads(
    cut: Tiling, block: int, y: int, x: int, sram: int, dram: int
) -> Iterator[tuple[Load, int]]:
    """Yield the LOADs of some blocks of a residual, each with the number of elements that it writes."""
    for offset, first, rows, columns, stride in result_rows(cut, block, cut.residual_blocks, y, x, dram):
        yield Load(Sram.INP, sram + offset, first, rows, columns, stride), rows * columns


def result_stores(cut: Tiling, co: int, y: int, x: int, sram: int, dram: int) -> Iterator[Store]:
    """Yield the STOREs of a piece of the result."""
    for offset, first, rows, columns, stride in result_rows(cut, co, cut.knobs.tile_co, y, x, dram):
        yield Store(sram + offset, first, rows, columns, stride)
