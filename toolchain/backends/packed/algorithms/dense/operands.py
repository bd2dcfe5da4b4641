"""The parameters of a matrix product on plain values, and functions that read and write its matrices."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.dot_products import neighbours_of
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.widened import widened
from toolchain.backends.packed.pieces import places
from toolchain.backends.packed.recognise.expressions import epilogue, inlined, substitute
from toolchain.backends.packed.recognise.matmul import Matmul, Operand
from toolchain.backends.packed.recognise.read import Expr, Read, shape_of


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
