"""Matrix products in tiles, in shared memory: a `TiledProduct` whose places are rows, whose channels columns.

Operands that lie in vectors are copied in vectors, others number by number. What is computed on the way (an
operand that fusion did not store) is computed once for each tile that reads it.
"""

from __future__ import annotations

from tvm import tirx

from toolchain.backends.packed.algorithms.dense.operands import ProductOperands
from toolchain.backends.packed.algorithms.gemm.choice import GemmChoice
from toolchain.backends.packed.algorithms.gemm.contiguity import Contiguity, contiguity
from toolchain.backends.packed.algorithms.gemm.pointwise import pointwise
from toolchain.backends.packed.algorithms.gemm.weight import weight_shape
from toolchain.backends.packed.algorithms.implicit_gemm.loops import TiledProduct
from toolchain.backends.packed.algorithms.implicit_gemm.steps import steps_of
from toolchain.backends.packed.algorithms.implicit_gemm.tensor_cores import place_of_half
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.work_group import WORD, copy_number, copy_vector
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import places
from toolchain.backends.packed.recognise.matmul import Matmul
from toolchain.backends.packed.recognise.read import Expr, Read


def gemm(
    read: Read, product: Matmul, choice: GemmChoice, layouts: Layouts, machine: Machine
) -> tirx.PrimFunc:
    """Return the function of a product of matrices, epilogue included.

    Parameters
    ----------
    layouts
        None of them packed.
    """
    if any(layouts):
        raise ValueError(f"{product.y.name}: a product works on plain values")

    def body(nest: Nest) -> None:
        operands = ProductOperands(nest, read, product, weight_shape(product, choice, machine.lanes))
        _Gemm(operands, product, choice).emit()

    return build(machine, body)


class _Gemm(TiledProduct):
    def __init__(self, operands: ProductOperands, product: Matmul, choice: GemmChoice) -> None:
        self.operands, self.of = operands, product
        lanes = operands.nest.machine.lanes
        self.columns, self.wide = product.columns.extent, choice.channels(lanes)
        self.rows = product.rows.extent
        tiles = -(-self.rows // choice.places), -(-self.columns // self.wide)
        steps = steps_of(pointwise(product), choice, lanes)
        super().__init__(operands.nest, choice, steps, tiles, product.batch.extent)

    def inside(self, block: Expr, place: Expr) -> tuple[Expr, Expr]:
        """Return whether a block of columns exists, and whether a row does."""
        return block < -(-self.columns // self.lanes), place < self.rows

    def copy_weights(self, start: Expr, first: Expr) -> None:
        """Emit the copies of a step's right operand."""
        depth, lanes, wide, batch = self.choice.depth, self.lanes, self.wide, self._batch()
        packed = self.operands.weight(batch)
        if packed is not None:
            weight, matrix = packed
            self.copy_packed(start, first, lambda unit, k, column: weight[matrix, self.row, unit, k, column])
            return
        how = contiguity(self.operands, self.of.b)

        def vector(number: Expr) -> None:
            unit, channel, block = places(number, [depth, lanes, wide // lanes], self.analyzer)
            k = self.nest.simplify((first + unit) * lanes + channel)
            column = tirx.min(self.row * wide + block * lanes, self.columns - lanes)
            value = self._right(batch, k, self.nest.simplify(column))
            copy_vector(self.shared[start + number * lanes], value, self._exists(k))

        def number(number: Expr) -> None:
            if how is Contiguity.INWARD:  # items beside each other read inner places beside each other
                unit, column, channel = places(number, [depth, wide, lanes], self.analyzer)
            else:
                unit, channel, column = places(number, [depth, lanes, wide], self.analyzer)
            k = self.nest.simplify((first + unit) * lanes + channel)
            if self.choice.on_tensor_cores:
                at = place_of_half(unit, channel, column, wide)
            else:
                at = (unit * lanes + channel) * wide + column
            read = self.nest.simplify(tirx.min(self.row * wide + column, self.columns - 1))
            self._copy_number(start, at, self._right(batch, k, read), k)

        if how is Contiguity.ACROSS and not self.choice.on_tensor_cores:
            self.in_turns(depth * wide, vector)
        else:
            self.in_turns(depth * wide * lanes, number)

    def copy_inputs(self, start: Expr, first: Expr) -> None:
        """Emit the copies of a step's left operand."""
        depth, lanes, high, batch = self.choice.depth, self.lanes, self.choice.places, self._batch()
        how = contiguity(self.operands, self.of.a)

        def left(place: Expr, k: Expr) -> Expr:
            row = self.nest.simplify(tirx.min(self.first + place, self.rows - 1))
            return self.operands.load(self.of.a, batch, row, k, None)

        def vector(number: Expr) -> None:
            unit, place = places(number, [depth, high], self.analyzer)
            k = self.nest.simplify((first + unit) * lanes)
            bytes_ = lanes * self.choice.factor
            to = self.shared[start + number * (bytes_ // WORD)]
            copy_vector(to, left(place, k), self._exists(k), bytes_)

        def number(number: Expr) -> None:
            if how is Contiguity.INWARD:
                unit, place, channel = places(number, [depth, high, lanes], self.analyzer)
            else:
                unit, channel, place = places(number, [depth, lanes, high], self.analyzer)
            k = self.nest.simplify((first + unit) * lanes + channel)
            self._copy_number(start, (unit * high + place) * lanes + channel, left(place, k), k)

        if how is Contiguity.VECTORS:
            self.in_turns(depth * high, vector)
        else:
            self.in_turns(depth * high * lanes, number)

    def store(self, block: Expr, place: Expr, total: tirx.Buffer) -> None:
        """Emit the outputs of a vector of sums."""
        batch, lanes = self._batch(), self.lanes
        if self.columns % lanes == 0:
            with self.nest.vector(lanes) as lane:
                self.operands.write(total[lane], batch, place, block * lanes + lane)
            return
        for number in range(lanes):
            column = self.nest.simplify(block * lanes + number)
            with self.nest.when(column < self.columns):
                self.operands.write(total[number], batch, place, column)

    def _copy_number(self, start: Expr, number: Expr, value: Expr, k: Expr) -> None:
        """Emit the copy of an operand's number at an inner place; its operand begins at a word."""
        at = self.nest.simplify(start * (WORD // self.choice.factor) + number)
        copy_number(self.factors, at, value, self._exists(k))

    def _batch(self) -> list[Expr]:
        return places(self.product, self.of.batch.extents, self.analyzer)

    def _right(self, batch: list[Expr], k: Expr, column: Expr) -> Expr:
        return self.operands.load(self.of.b, batch, None, k, column)

    def _exists(self, k: Expr) -> Expr | None:
        """Return whether an inner place exists; None if all do."""
        full = self.steps.padded * self.lanes == self.of.inner.extent
        return None if full else k < self.of.inner.extent
