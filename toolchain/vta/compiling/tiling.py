"""Computes the sizes and places of a cut convolution's pieces on the chip, and whether they fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from toolchain.quantities import counted
from toolchain.vta.design import HAZARD_STEPS, Sram, VtaConfig
from toolchain.vta.isa import Load, Store
from toolchain.vta.isa.fields import fields_of
from toolchain.vta.isa.instructions import Opcode
from toolchain.vta.layers.layer import ConvShape, blocks_of
from toolchain.vta.layers.region import Knobs


@dataclass(frozen=True)
class Tiling:
    """A convolution cut by knobs for a configuration.

    Operands shared by the pieces that are computed alternately have two places on the chip, used in turn;
    other operands have one place for each piece.
    """

    shape: ConvShape
    knobs: Knobs
    config: VtaConfig
    residual: bool = False

    @cached_property
    def ic_blocks(self) -> int:
        """Number of blocks of input channels."""
        return blocks_of(self.shape.ic, self.config.block)

    @cached_property
    def oc_blocks(self) -> int:
        """Number of blocks of output channels."""
        return blocks_of(self.shape.oc, self.config.block)

    @cached_property
    def chunks(self) -> int:
        """Number of chunks of input channels that are loaded one after the other."""
        return self.ic_blocks // self.knobs.tile_ci

    @cached_property
    def row_step(self) -> int:
        """Distance between two loaded rows, in rows of the source.

        A kernel of height 1 reads only every `sh`-th row, where `sh` is the vertical stride, so only those
        are loaded. For higher kernels every row is loaded.
        """
        return self.shape.sh if self.shape.kh == 1 else 1

    @cached_property
    def row_stride(self) -> int:
        """Number of rows on the chip between the first input rows of two consecutive rows of the result."""
        return 1 if self.shape.kh == 1 else self.shape.sh

    @cached_property
    def rows(self) -> int:
        """Number of rows of the source on the chip, for one block of channels."""
        return (self.knobs.tile_h - 1) * self.row_stride + self.shape.kh

    @cached_property
    def columns(self) -> int:
        """Number of columns of the source on the chip."""
        return (self.knobs.tile_w - 1) * self.shape.sw + self.shape.kw

    @cached_property
    def pixels(self) -> int:
        """Number of pixels in a piece of the result, for one block of channels."""
        return self.knobs.tile_h * self.knobs.tile_w

    @cached_property
    def vectors(self) -> int:
        """Number of elements of ACC for a piece."""
        return self.pixels * self.knobs.tile_co

    @cached_property
    def inp_elements(self) -> int:
        """Number of elements of one place for inputs."""
        return self.knobs.tile_ci * self.rows * self.columns

    @cached_property
    def wgt_elements(self) -> int:
        """Number of elements of one place for weights."""
        return self.knobs.tile_co * self.knobs.tile_ci * self.shape.taps

    @cached_property
    def residual_blocks(self) -> int:
        """Number of blocks of a residual that are loaded at once into a place for inputs."""
        most = self.inp_elements // self.pixels
        return max(n for n in range(1, self.knobs.tile_co + 1) if self.knobs.tile_co % n == 0 and n <= most)

    @cached_property
    def diagonal_base(self) -> int:
        """First element of WGT with the diagonal matrices that residuals are multiplied with."""
        return self.knobs.contexts * self.wgt_elements

    @cached_property
    def parameter_base(self) -> int:
        """First element of ACC with the biases; the shifts follow."""
        return self.config.buffers[Sram.ACC].depth - 2 * self.oc_blocks

    @cached_property
    def whole_kernel(self) -> bool:
        """Whether one GEMM computes all taps; if not, there is a GEMM for each tap.

        A GEMM loops over channels, columns and then its micro-ops: taps, blocks of outputs, rows. The next
        tap uses the same accumulators, and must not do so within `HAZARD_STEPS` steps.
        """
        steps = self.knobs.tile_h * self.knobs.tile_co
        return steps >= HAZARD_STEPS or self.shape.taps == 1

    @cached_property
    def gemms(self) -> int:
        """Number of GEMM instructions for one chunk of input channels."""
        return 1 if self.whole_kernel else self.shape.taps

    @cached_property
    def micro_ops(self) -> int:
        """Upper bound of the number of micro-ops."""
        contexts, lists = self.knobs.contexts, self.knobs.contexts**2
        gemm = lists * self.shape.taps * self.knobs.tile_co * self.knobs.tile_h
        residual = lists * self.oc_blocks if self.residual else 0
        return gemm + residual + contexts * (1 + 2 * self.oc_blocks)

    @cached_property
    def most_stride(self) -> int:
        """Largest stride between the rows of a LOAD or STORE."""
        return fields_of(self.config).most(Opcode.LOAD, "x_stride")

    def problem(self) -> str:
        """Return why the convolution cannot be cut with these knobs; empty if it can."""
        return self._cut() or self._too_large() or self._too_far() or self._hazard()

    def _cut(self) -> str:
        knobs, shape = self.knobs, self.shape
        wholes = {
            "tile_b": (knobs.tile_b, shape.batch, "image", ""),
            "tile_h": (knobs.tile_h, shape.oh, "row", " of the result"),
            "tile_w": (knobs.tile_w, shape.ow, "column", " of the result"),
            "tile_ci": (knobs.tile_ci, self.ic_blocks, "block", " of input channels"),
            "tile_co": (knobs.tile_co, self.oc_blocks, "block", " of output channels"),
        }
        for name, (part, whole, what, of) in wholes.items():
            if part < 1 or whole % part:
                return f"{name}={part} does not divide the {counted(whole, what)}{of}"
        if knobs.oc_nthread not in (1, 2) or knobs.h_nthread not in (1, 2) or knobs.contexts > 2:
            threads_text = f"oc_nthread={knobs.oc_nthread} and h_nthread={knobs.h_nthread}"
            return f"{threads_text}: one of them may be 2, else they are 1"
        threads = {
            "oc_nthread": (knobs.oc_nthread, self.oc_blocks // knobs.tile_co, "tile_co"),
            "h_nthread": (knobs.h_nthread, shape.oh // knobs.tile_h, "tile_h"),
        }
        for name, (part, whole, what) in threads.items():
            if whole % part:
                return f"{name}={part} does not divide the {counted(whole, 'piece')} that {what} makes"
        return ""

    def _too_large(self) -> str:
        contexts, diagonal = self.knobs.contexts, self.oc_blocks if self.residual else 0
        needed = {
            Sram.INP: (contexts * self.inp_elements, "tile_h, tile_w or tile_ci"),
            Sram.WGT: (contexts * self.wgt_elements + diagonal, "tile_ci or tile_co"),
            Sram.ACC: (contexts * self.vectors + 2 * self.oc_blocks, "tile_h, tile_w or tile_co"),
            Sram.UOP: (self.micro_ops, "tile_h or tile_co"),
        }
        for memory, (elements, smaller) in needed.items():
            depth = self.config.buffers[memory].depth
            if elements > depth:
                return f"{elements} elements of {memory.name}, which has {depth}: make {smaller} smaller"
        return ""

    def _too_far(self) -> str:
        """Return which stride an instruction cannot encode; the buffers' depths bound all other numbers."""
        stride = max(self.row_step * self.shape.w, self.shape.ow)
        if self.knobs.tile_h > 1 and stride > self.most_stride:
            return f"rows are {stride} elements apart, where {self.most_stride} is the most: make tile_h 1"
        return ""

    def _hazard(self) -> str:
        if (
            self.knobs.tile_ci > 1
            and not (self.whole_kernel and self.shape.taps > 1)
            and self.vectors < HAZARD_STEPS
        ):
            return (
                f"{counted(self.vectors, 'accumulator')}, where {HAZARD_STEPS} steps lie between two uses of "
                "one: make tile_h, tile_w or tile_co larger, or tile_ci 1"
            )
        return ""


# Makes the LOADs and STOREs of a piece.


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
