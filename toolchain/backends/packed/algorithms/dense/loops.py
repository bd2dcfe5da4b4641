"""Matrix products on plain values.

A register tile of `rows` rows x `vectors` vectors of the output sums up over the reduction axis. The right
operand is read from panels (inner, blocks * lanes): a constant is packed when the network is compiled; a
variable is packed into a local panel for every piece of work, unless it is read only once.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.algorithms.dense.choice import DenseChoice
from toolchain.backends.packed.algorithms.dense.operands import ProductOperands
from toolchain.backends.packed.algorithms.dense.weight import weight_shape
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.prefetch import LINE, prefetch
from toolchain.backends.packed.loops.tile import Inputs, Tile
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.expressions import bind
from toolchain.backends.packed.recognise.matmul import Matmul
from toolchain.backends.packed.recognise.read import Expr, Read

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
