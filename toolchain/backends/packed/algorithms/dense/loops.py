"""Matrix products on plain values.

A register tile of `rows` rows x `vectors` vectors of the output sums up over the reduction axis. The right
operand is read from panels (inner, blocks * lanes): a constant is packed when the network is compiled; a
variable is packed into a local panel for every piece of work, unless it is read only once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.tirx.script.builder import ir

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Choice, Order, knob
from toolchain.backends.packed.dot_products import neighbours_of
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.emitter import widened
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.prefetch import LINE, prefetch
from toolchain.backends.packed.loops.tile import Inputs, Tile
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import places
from toolchain.backends.packed.recognise.contraction import Matmul, Operand
from toolchain.backends.packed.recognise.expressions import bind, epilogue, inlined, substitute
from toolchain.backends.packed.recognise.read import Expr, Read, shape_of

# The parameters of a matrix product on plain values, and functions that read and write its matrices.


class ProductOperands:
    """The parameters of a product in the generated function; declares them.

    Parameters
    ----------
    weight
        Shape of the packed weight, if there is a constant one.
    """

    def __init__(self, nest: Nest, read: Read, product: Matmul, weight: Sequence[int]) -> None:
        self.nest, self.read, self.product, self.analyzer = nest, read, product, nest.analyzer
        self.arguments = []
        for param in read.params:
            packed = product.weight is not None and param.same_as(product.weight)
            shape = tuple(weight) if packed else shape_of(param)
            stored = nest.machine.products_of(product.dtype).stored if packed else ""
            self.arguments.append(ir.arg(param.name, ir.buffer(shape, stored or str(param.dtype))))
        self._wider: tuple[tirx.Buffer, tirx.Buffer] | None = None

    def widen(self) -> None:
        """Emit the conversion of the whole left operand, if the instruction takes wider numbers."""
        wider = self.nest.machine.products_of(self.product.dtype).widened
        if not wider:
            return
        zero = tirx.const(0, "int32")
        source = neighbours_of(
            self.load(self.product.a, [zero] * len(self.product.batch.vars), zero, zero, None), 1
        )
        self._wider = source.source, widened(self.nest, source.source, wider)

    def weight(self, batch: Sequence[Expr]) -> tuple[tirx.Buffer, Expr] | None:
        """Return the packed weight, and the number of the matrix in it; None if `b` is no constant."""
        if self.product.weight is None:
            return None
        number: Expr = tirx.IntImm("int32", 0)
        each = zip(batch, self.product.batch.extents, self.product.batch_of_b, strict=True)
        for place, extent, read in each:
            if read:
                number = number * extent + place
        return self.arguments[self.read.parameter(self.product.weight)], number

    def load(
        self, operand: Operand, batch: list[Expr], row: Expr | None, k: Expr | None, column: Expr | None
    ) -> Expr:
        """Return an element of an operand; one that is not stored is computed inline."""
        index = self.index(operand, batch, row, k, column)
        value = inlined(self.read, self._stored, self.analyzer)(operand.buffer, index)
        if operand is self.product.a and self._wider is not None:
            narrow, wide = self._wider
            if not isinstance(value, TensorLoad) or not value.source.same_as(narrow):
                raise TypeError(f"{operand.buffer.name}: inputs of one buffer were expected, not {value}")
            return tirx.BufferLoad(wide, value.indices)
        return value

    def index(
        self, operand: Operand, batch: list[Expr], row: Expr | None, k: Expr | None, column: Expr | None
    ) -> list[Expr]:
        """Return the index of an element of an operand."""
        product = self.product
        bound = list(zip(product.batch.vars, batch, strict=True))
        for axes, place in ((product.rows, row), (product.inner, k), (product.columns, column)):
            if place is not None:
                bound += zip(axes.vars, places(place, axes.extents, self.analyzer), strict=True)
        return [self.analyzer.simplify(substitute(each, bound, tirx.BufferLoad)) for each in operand.index]

    def write(self, total: Expr, batch: list[Expr], row: Expr, column: Expr) -> None:
        """Emit the output for one sum, epilogue included."""
        total = total.astype(str(self.product.y.dtype))
        index = self.index(self.product.out, batch, row, None, column)
        value = epilogue(self.read, self.product.y, total, index, self._stored, self.analyzer)
        ir.buffer_store(self.arguments[-1], value, index)

    def _stored(self, buffer: tirx.Buffer, index: list[Expr]) -> Expr | None:
        place = self.read.place(buffer)
        return None if place is None else tirx.BufferLoad(self.arguments[place], index)


# The choice of the algorithm `dense`.


@dataclass(frozen=True)
class DenseChoice(Choice):
    """A register tile of sums, and the order in which tiles are computed.

    Attributes
    ----------
    vectors, rows
        Size of a tile: vectors of output columns, and output rows.
    tiles
        Tiles of one parallel piece of work, one below the other.
    order
        Outer parallel axis: rows of the output, or its columns.
    """

    algorithm = "dense"
    vectors: int = knob("blocks", 1)
    rows: int = knob("columns", 1)
    tiles: int = knob("rows", 1)
    order: Order = "rows"


# The packed weight of a matrix product.


def weight_shape(product: Matmul, choice: DenseChoice, lanes: int, depth: int = 1) -> tuple[int, ...]:
    """Return (batch, n / (N V), k / D, N V D): a panel has N vectors of V columns side by side.

    A column's D numbers, which one instruction multiplies, are neighbours.
    """
    wide = choice.vectors * lanes
    batch = prod(
        extent for extent, read in zip(product.batch.extents, product.batch_of_b, strict=True) if read
    )
    return (batch, -(-product.columns.extent // wide), product.inner.extent // depth, wide * depth)


def pack_weight(weight: Array, product: Matmul, choice: DenseChoice, lanes: int, depth: int = 1) -> Array:
    """Return a constant right operand, packed in the order in which the function reads it."""
    batch, groups, steps, row = shape = weight_shape(product, choice, lanes, depth)
    wide, matrix = row // depth, product.matrix(weight)
    padded = np.pad(matrix, [(0, 0), (0, 0), (0, groups * wide - matrix.shape[2])])
    split = padded.reshape(batch, steps, depth, groups, wide)
    return split.transpose(0, 3, 1, 4, 2).reshape(shape)


# Reads b: (inner index, column of the group) -> the value.
Right = Callable[[Expr, Expr], Expr]
_FEW = 4  # with at most that many rows, weights cannot be loaded as fast as they are used
_AHEAD = 2048  # prefetch distance in numbers: 1024 to 8192 were alike (a tenth more bandwidth), so the middle


def dense(
    read: Read, product: Matmul, choice: DenseChoice, layouts: Layouts, machine: Machine
) -> tirx.PrimFunc:
    """Return the function of a product of matrices, epilogue included.

    Parameters
    ----------
    layouts
        None of them packed.
    """
    if any(layouts):
        raise ValueError(f"{product.y.name}: a product works on plain values")
    return build(machine, lambda nest: _Dense(nest, read, product, choice).emit())


class _Dense:
    def __init__(self, nest: Nest, read: Read, product: Matmul, choice: DenseChoice) -> None:
        self.product, self.choice = product, choice
        self.nest, self.machine, self.analyzer = nest, nest.machine, nest.analyzer
        machine = nest.machine
        self.lanes, self.wide = machine.lanes, machine.lanes * choice.vectors
        self.rows, self.columns, self.inner = (
            product.rows.extent,
            product.columns.extent,
            product.inner.extent,
        )
        self.groups = -(-self.columns // self.wide)
        self.dtype = str(product.a.buffer.dtype)  # of the products; `y` may be wider
        self.depth = machine.products_of(self.dtype).depth
        self.zero = tirx.const(0, self.dtype)
        shape = weight_shape(product, choice, machine.lanes, self.depth)
        self.operands = ProductOperands(nest, read, product, shape)

    def emit(self) -> None:
        """Emit all pieces; a piece is a group of columns and some tiles of rows of one batch."""
        self.operands.widen()
        size = self.choice.rows
        full, rest = divmod(self.rows, size)
        steps = min(self.choice.tiles, -(-self.rows // size))
        bands = -(-self.rows // (size * steps))
        inner = [bands, self.groups] if self.choice.order == "rows" else [self.groups, bands]
        space = [*self.product.batch.extents, *inner]
        with self.nest.pieces(space, group=self.choice.group) as (*batch, one, other):
            band, group = (one, other) if self.choice.order == "rows" else (other, one)
            right = self._right(batch, group)
            if full:
                count = None if full == bands * steps else tirx.min(steps, full - band * steps)
                with self.nest.serial(steps, count) as step:
                    first = self.analyzer.simplify((band * steps + step) * size)
                    self._tile(batch, group, first, size, right)
            if rest:
                last = self.analyzer.simplify(tirx.EQ(band, bands - 1))
                with self.nest.when(None if bands == 1 else last):
                    self._tile(batch, group, tirx.IntImm("int32", full * size), rest, right)

    def _right(self, batch: list[Expr], group: Expr) -> Right:
        """Return a function that reads b; pack b into a panel first if that pays."""
        product = self.product
        packed = self.operands.weight(batch)
        if packed is not None:
            return lambda k, column: self._packed(*packed, group, k, column)
        once = self.rows <= self.choice.rows and self.columns % self.wide == 0
        if once and product.b.runs_along(product.columns):
            return lambda k, column: self.operands.load(product.b, batch, None, k, group * self.wide + column)
        if self.machine.pieces.fine:  # a work item has no room for a panel
            return lambda k, column: self._right_at(batch, group, k, column)
        panel = self.nest.local((self.inner, self.wide), self.dtype)
        self._fill(panel, batch, group)
        return lambda k, column: panel[k, column]

    def _packed(self, weight: tirx.Buffer, number: Expr, group: Expr, k: Expr, column: Expr) -> Expr:
        """Return a packed weight, see `weight_shape`."""
        if self.depth > 1:
            column = column * self.depth + self.analyzer.simplify(k % self.depth)
            k = self.analyzer.simplify(k // self.depth)
        return weight[(number, group, k, column)]

    def _right_at(self, batch: list[Expr], group: Expr, k: Expr, column: Expr) -> Expr:
        """Return b at a row and at a column of a group; zero beyond the matrix."""
        at = self.analyzer.simplify(group * self.wide + column)
        value = self.operands.load(self.product.b, batch, None, k, at)
        if self.analyzer.can_prove(at < self.columns):
            return value
        return tirx.if_then_else(at < self.columns, value, self.zero)

    def _fill(self, panel: tirx.Buffer, batch: list[Expr], group: Expr) -> None:
        """Copy a group's columns of b into a panel, with zeros for columns beyond the matrix."""
        product, analyzer = self.product, self.analyzer

        def copy(k: Expr, column: Expr) -> None:
            ir.buffer_store(panel, self._right_at(batch, group, k, column), [k, column])

        if not product.b.runs_along(product.columns):
            with self.nest.serial(self.wide) as column, self.nest.serial(self.inner) as k:
                copy(k, column)
            return
        with self.nest.serial(self.inner) as k:
            for place in range(self.choice.vectors):
                start = place * self.lanes

                def whole(start: int = start) -> None:
                    with self.nest.vector(self.lanes) as lane:
                        column = bind(analyzer, lane, self.lanes) + start
                        value = self.operands.load(product.b, batch, None, k, group * self.wide + column)
                        ir.buffer_store(panel, value, [k, column])

                def part(start: int = start) -> None:
                    with self.nest.serial(self.lanes) as lane:
                        copy(k, lane + start)

                self._branch(group, place, whole, part)

    def _branch(
        self, group: Expr, place: int, whole: Callable[[], None], part: Callable[[], None] | None
    ) -> None:
        """Emit `whole` for a vector of columns inside the matrix, `part` for one at or beyond its edge."""
        inside = self.analyzer.simplify(group * self.choice.vectors + place < self.columns // self.lanes)
        if self.analyzer.can_prove(inside):
            whole()
        elif self.analyzer.can_prove(tirx.Not(inside)):
            if part is not None:
                part()
        else:
            with ir.If(inside):
                with ir.Then():
                    whole()
                if part is not None:
                    with ir.Else():
                        part()

    def _tile(self, batch: list[Expr], group: Expr, first: Expr, size: int, right: Right) -> None:
        """Emit one tile, with its rows from `first`."""
        analyzer = self.analyzer
        choice, instruction = self.choice, self.machine.instruction(self.dtype)
        tile = Tile(self.nest, instruction, choice.vectors, size, self.inner, choice.loads)

        def multiply(inputs: Inputs, start: Expr) -> None:
            def at(k: Expr) -> Expr:
                return analyzer.simplify(start + k)

            inputs.multiply(
                lambda row, k: self.operands.load(
                    self.product.a, batch, first + row, analyzer.simplify(start + k), None
                ),
                lambda k, number, lane: right(at(k), number * self.lanes + lane),
            )

        if self.machine.operand == "lane":
            for start, count, width in self.nest.vectors(self.inner, self.lanes * self.depth):
                inputs = tile.inputs(width)
                with tile.loops([count], width) as (block,):
                    multiply(inputs, block * width + start)
        else:
            for start, count in tile.sums.shares(self.inner // self.depth):
                inputs = tile.inputs(self.depth)
                with tile.loops([count], self.depth) as (step,):
                    at = analyzer.simplify(step + start)
                    self._fetch(group, at, size)
                    multiply(inputs, analyzer.simplify(at * self.depth))
        self._store(batch, group, first, size, tile.joined())

    def _fetch(self, group: Expr, step: Expr, size: int) -> None:
        """Prefetch weights if each is used only a few times."""
        if self.product.weight is None or size > _FEW:
            return
        weight = self.operands.arguments[self.operands.read.parameter(self.product.weight)]
        row = self.wide * self.depth
        for start in range(0, row, LINE):
            prefetch(weight, [0, group, step + _AHEAD // row, start], near=True)

    def _store(self, batch: list[Expr], group: Expr, first: Expr, size: int, sums: list[tirx.Buffer]) -> None:
        lanes, analyzer = self.lanes, self.analyzer
        rest = self.columns % lanes
        for place, total in enumerate(sums):
            start = self.analyzer.simplify((group * self.choice.vectors + place) * lanes)

            def whole(total: tirx.Buffer = total, start: Expr = start) -> None:
                with self.nest.unroll(size) as row, self.nest.vector(lanes) as lane:
                    self.operands.write(total[row * lanes + lane], batch, first + row, start + lane)

            def part(total: tirx.Buffer = total, start: Expr = start) -> None:
                # Through memory, because registers cannot be indexed.
                kept = self.nest.local((size * lanes,), str(total.dtype))
                with self.nest.unroll(size) as row, self.nest.vector(lanes) as lane:
                    ir.buffer_store(kept, total[row * lanes + lane], [row * lanes + lane])
                with self.nest.grid([size, rest]) as (row, lane):
                    self.operands.write(kept[row * lanes + lane], batch, first + row, start + lane)

            def tail(part: Callable[[], None] = part, place: int = place) -> None:
                last = analyzer.simplify(tirx.EQ(group * self.choice.vectors + place, self.columns // lanes))
                with self.nest.when(None if analyzer.can_prove(last) else last):
                    part()

            self._branch(group, place, whole, tail if rest else None)
