"""The parts that generators of convolutions share: parameters, epilogue, halo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import prod

from tvm import DataType, tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout, Layouts, dense_layout
from toolchain.backends.packed.loops.elementary import WRITTEN_OUT
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.expressions import calls, epilogue
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, UnreadableError, shape_of
from toolchain.backends.packed.recognise.transposed import Transposed

# Emits the zeros around a packed value, which its producer writes.


def zero_halo(
    nest: Nest,
    buffer: tirx.Buffer,
    layout: Layout,
    spatial: Sequence[int],
    n: Expr,
    block: Expr,
    row: Sequence[Expr],
) -> None:
    """Emit the zeros beside one row of a packed value, and beyond the first and the last row.

    Parameters
    ----------
    spatial
        Logical extents of the spatial axes.
    row
        Position on all spatial axes but the last.
    """
    full = layout.shape((1, 1, *spatial))[2:-1]
    for axis in range(len(spatial)):
        for start, count, edge in _sides(layout, spatial, axis):
            if count:
                ends = [tirx.EQ(row[k], edge[k]) for k in range(axis, len(row))]
                fixed = [row[k] + layout.before[k] for k in range(axis)]
                with (
                    nest.when(tirx.all(*ends) if ends else None),
                    nest.grid([count, *full[axis + 1 :]]) as at,
                    nest.vector(layout.lanes) as lane,
                ):
                    fill = tirx.const(layout.fill, str(buffer.dtype))
                    ir.buffer_store(
                        buffer, fill, [n, block + layout.offset, *fixed, at[0] + start, *at[1:], lane]
                    )


def zero_halo_of_tile(
    nest: Nest,
    buffer: tirx.Buffer,
    layout: Layout,
    spatial: Sequence[int],
    n: Expr,
    block: Expr,
    row: Sequence[Expr],
    first: Expr,
    columns: int,
) -> None:
    """Emit a tile's share of the zeros of `zero_halo`: beside it, and beyond the first and the last row.

    Parameters
    ----------
    first, columns
        The tile's first column in the row, and its number of columns; some may be beyond the row.
    """
    fill, width, last = tirx.const(layout.fill, str(buffer.dtype)), spatial[-1], len(spatial) - 1
    left, right = layout.before[-1], layout.after[-1]
    full = layout.shape((1, 1, *spatial))[2:-1]
    parts = [
        (tirx.EQ(first, 0), left, tirx.IntImm("int32", 0)),
        (first + columns >= width, right, tirx.IntImm("int32", width + left)),
    ]

    def write(lines: Sequence[Expr], column: Expr) -> None:
        with nest.vector(layout.lanes) as lane:
            ir.buffer_store(buffer, fill, [n, block + layout.offset, *lines, column, lane])

    def beside(lines: Sequence[Expr]) -> None:
        for condition, count, start in parts:
            with nest.where(condition) as there:
                if there and count:
                    with nest.grid([count]) as (column,):
                        write(lines, start + column)

    beside([place + before for place, before in zip(row, layout.before, strict=False)])
    for axis in range(last):
        fixed = [row[k] + layout.before[k] for k in range(axis)]
        for start, count, edge in _sides(layout, spatial, axis):
            if not count:
                continue
            with (
                nest.when(tirx.all(*(tirx.EQ(row[k], edge[k]) for k in range(axis, last)))),
                nest.grid([count, *full[axis + 1 : -1]]) as at,
            ):
                lines = [*fixed, at[0] + start, *at[1:]]
                with nest.grid([columns]) as (column,), nest.where(first + column < width) as there:
                    if there:
                        write(lines, first + column + left)
                beside(lines)


def _sides(layout: Layout, spatial: Sequence[int], axis: int) -> list[tuple[int, int, list[int]]]:
    """Return the zeros before and after an axis: start, count, place of the nearest value."""
    return [
        (0, layout.before[axis], [0] * len(spatial)),
        (layout.before[axis] + spatial[axis], layout.after[axis], [each - 1 for each in spatial]),
    ]


# Storage of the values of a function that `stagewise` generates.

# Waking threads takes about 10 us, in which one core computes more elements than this.
SMALL = 1 << 14
CALL = 10  # cost of an intrinsic such as exp in plain operations


class FunctionStorage:
    """The parameters of a function and its intermediate buffers; declares the parameters."""

    def __init__(self, nest: Nest, read: Read, layouts: Layouts) -> None:
        self.nest, self.read = nest, read
        self.lanes, self.analyzer = nest.machine.lanes, nest.analyzer
        self._stored: list[tuple[tirx.Buffer, tirx.Buffer, Layout | None]] = []
        self._channels = {
            shape_of(param)[:2] for param, each in zip(read.params, layouts, strict=True) if each
        }
        for param, layout in zip(read.params, layouts, strict=True):
            shape = shape_of(param) if layout is None else layout.shape(shape_of(param))
            self._stored.append((param, ir.arg(param.name, ir.buffer(shape, str(param.dtype))), layout))

    def allocate(self, buffer: tirx.Buffer, *, packs: bool = True) -> None:
        """Allocate a buffer for a value inside the function; `packs` allows it to be packed."""
        shape = shape_of(buffer)
        layout = None
        if packs and shape[:2] in self._channels and len(shape) >= 3 and prod(shape[2:]) > 1:
            layout = dense_layout(self.lanes, len(shape))
        extents = shape if layout is None else layout.shape(shape)
        self._stored.append((buffer, self.nest.shared(extents, str(buffer.dtype)), layout))

    def where(self, buffer: tirx.Buffer) -> tuple[tirx.Buffer, Layout | None] | None:
        """Return the buffer and layout of a stored value; None if the value is computed for every read."""
        return next(((new, layout) for own, new, layout in self._stored if own.same_as(buffer)), None)

    def targets(self, stage: Stage) -> tuple[list[tirx.Buffer], Layout | None]:
        """Return the buffers of the parts of a stored stage, and their common layout."""
        found = [self.where(part.buffer) for part in stage.parts]
        buffers = [each[0] for each in found if each is not None]
        layouts = {each[1] for each in found if each is not None}
        if len(buffers) != len(stage.parts) or len(layouts) != 1:
            raise UnreadableError(f"block {stage.name} stores values in several layouts")
        return buffers, layouts.pop()

    def load(self, buffer: tirx.Buffer, index: list[Expr], analyzer: Analyzer) -> Expr | None:
        """Return the stored element at a logical index; None if the value is not stored."""
        found = self.where(buffer)
        if found is None:
            return None
        new, layout = found
        return tirx.BufferLoad(new, index if layout is None else layout.at(index, analyzer))

    @contextmanager
    def pieces(self, space: Sequence[int], stage: Stage) -> Iterator[list[Expr]]:
        """Emit a loop over independent pieces of a stage; yield the place of a piece in `space`."""
        cost = sum(1 + CALL * calls(part.value) for part in stage.parts)
        small = prod(stage.extents) * cost < SMALL
        with self.nest.pieces(space, small=small) as place:
            yield place


# Converts all inputs of a function before it multiplies them, for instructions whose factors are wider.
#
# A convolution reads an input once for each tap and each group of outputs; converted there, an input of a
# byte took four instructions for each two products of AVX2. Converted once, it takes one.

_PIECE = 1 << 13  # numbers that a piece converts
_AT_ONCE = 4  # vectors of a turn


def widened(nest: Nest, source: tirx.Buffer, dtype: str) -> tirx.Buffer:
    """Emit the conversion of a whole parameter; return the buffer of its shape that has the result."""
    shape = [int(extent) for extent in source.shape]
    made, count = nest.shared(shape, dtype), prod(shape)
    flat = [ir.decl_buffer((count,), str(each.dtype), data=each.data) for each in (source, made)]
    wide = nest.machine.vector // DataType(dtype).itemsize * _AT_ONCE

    def convert(start: Expr, size: int) -> None:
        place = [start if size == 1 else tirx.Ramp(start, 1, size)]
        kind = dtype if size == 1 else f"{dtype}x{size}"
        ir.buffer_store(flat[1], tirx.Cast(kind, tirx.BufferLoad(flat[0], place)), place)

    turns, rest = divmod(count, wide)
    each = min(turns, _PIECE // wide)
    pieces, left = divmod(turns, each) if each else (0, 0)
    if pieces:
        with nest.pieces([pieces], small=count < SMALL) as (piece,), nest.serial(each) as turn:
            convert((piece * each + turn) * wide, wide)
    if left:
        with nest.serial(left) as turn:
            convert((pieces * each + turn) * wide, wide)
    for start, many, size in nest.vectors(rest):
        for first in range(start, start + many * size, size):
            convert(tirx.const(turns * wide + first, "int32"), size)
    return made


class Emitter:
    """The parameters of a convolution in the generated function, and functions that emit its output.

    Parameters
    ----------
    weight
        Shape of the packed weight.
    halo
        Zeros that are read around the input; None for the convolution's whole padding.
    """

    def __init__(
        self,
        nest: Nest,
        read: Read,
        conv: Convolution | Transposed,
        layouts: Layouts,
        weight: Sequence[int],
        halo: Sequence[int] | None = None,
    ) -> None:
        self.nest, self.read, self.conv, self.layouts = nest, read, conv, layouts
        self.lanes, self.analyzer = nest.machine.lanes, nest.analyzer
        self.arguments = []
        for param, layout in zip(read.params, layouts, strict=True):
            shape = shape_of(param) if layout is None else layout.shape(shape_of(param))
            dtype = str(param.dtype)
            if param.same_as(conv.weight):
                shape = tuple(weight)
                dtype = nest.machine.products_of(conv.dtype).stored or dtype
            self.arguments.append(ir.arg(param.name, ir.buffer(shape, dtype)))
        self.x, self.weight, self.out = map(self._argument, (conv.x, conv.weight, read.output))
        self.dtype = conv.dtype  # of the products; `y` may be wider
        self.zero = tirx.const(0, self.dtype)
        # Position of the first window in the padded input.
        self.origin = tuple(
            have - need for have, need in zip(self.layout(conv.x).before, conv.pads, strict=False)
        )
        needed = zip(self.layout(conv.x).halo, conv.pads if halo is None else halo, strict=True)
        if any(have < need for have, need in needed):
            raise ValueError(f"{conv.x.name}: the halo {self.layout(conv.x).halo} is too small")

    def widen(self) -> None:
        """Emit the conversion of all inputs, if the instruction takes wider ones."""
        wider = self.nest.machine.products_of(self.dtype).widened
        if wider:
            self.x = widened(self.nest, self.x, wider)

    def _argument(self, buffer: tirx.Buffer) -> tirx.Buffer:
        return self.arguments[self.read.parameter(buffer)]

    def layout(self, buffer: tirx.Buffer) -> Layout:
        """Return the layout of a packed parameter."""
        layout = self.layouts[self.read.parameter(buffer)]
        if layout is None:
            raise ValueError(f"{buffer.name} is not packed")
        return layout

    @cached_property
    def long(self) -> bool:
        """Whether the epilogue (operators after the sum) has a function that becomes long code."""
        index = [tirx.Var("i", "int32") for _ in self.read.output.shape]
        total = tirx.const(0, str(self.conv.y.dtype))
        value = epilogue(self.read, self.conv.y, total, index, self._load, self.analyzer)
        return calls(value, *WRITTEN_OUT) > 0

    def store(self, total: Expr, index: Sequence[Expr]) -> None:
        """Emit the output at a logical index (n, c, *spatial), given the convolution's sum there."""
        total = total.astype(str(self.conv.y.dtype))
        value = epilogue(self.read, self.conv.y, total, index, self._load, self.analyzer)
        if self.conv.co % self.lanes:  # padding channels must stay zero, whatever f(0) is
            # TVM removes a load's own condition if a Select has the same one; but a Select computes both
            # sides, so the load would exceed its buffer.
            zero = tirx.const(0, str(self.out.dtype))
            keep = tirx.if_then_else if calls(value, "if_then_else") else tirx.Select
            value = keep(self.analyzer.simplify(index[1]) < self.conv.co, value, zero)
        self.store_sum(value, index)

    def store_sum(self, value: Expr, index: Sequence[Expr]) -> None:
        """Emit a store to the output at a logical index, without epilogue; partial sums may wait there."""
        value = value.astype(str(self.out.dtype))
        ir.buffer_store(self.out, value, self.layout(self.read.output).at(index, self.analyzer))

    def load_sum(self, total: tirx.Buffer, place: list[Expr], index: Sequence[Expr]) -> None:
        """Emit the load of a partial sum that `store_sum` stored."""
        stored = tirx.BufferLoad(self.out, self.layout(self.read.output).at(index, self.analyzer))
        ir.buffer_store(total, stored.astype(str(total.dtype)), place)

    def _load(self, buffer: tirx.Buffer, index: list[Expr]) -> Expr | None:
        place = self.read.place(buffer)
        if place is None:
            return None
        layout = self.layouts[place]
        if layout is not None:
            return tirx.BufferLoad(self.arguments[place], layout.at(index, self.analyzer))
        value: Expr = tirx.BufferLoad(self.arguments[place], index)
        for each, extent in zip(index, shape_of(buffer), strict=True):
            if not self.analyzer.can_prove(each < extent):  # channels that exist only as padding
                value = tirx.if_then_else(each < extent, value, tirx.const(0, str(buffer.dtype)))
        return value

    def zero_halo(self, n: Expr, block: Expr, row: Sequence[Expr]) -> None:
        """Emit the zeros around one output row, see `halo.zero_halo`."""
        layout = self.layout(self.read.output)
        zero_halo(self.nest, self.out, layout, self.conv.out, n, block, row)

    def zero_halo_of_tile(self, n: Expr, block: Expr, row: Sequence[Expr], first: Expr, columns: int) -> None:
        """Emit a tile's share of the zeros around the output, see `halo.zero_halo_of_tile`."""
        layout = self.layout(self.read.output)
        zero_halo_of_tile(self.nest, self.out, layout, self.conv.out, n, block, row, first, columns)
