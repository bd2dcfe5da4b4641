"""Finds the axis along which an operand is contiguous, for wide copies to shared memory."""

from __future__ import annotations

from enum import Enum

from tvm import tirx
from tvm.ir.expr import TensorLoad

from toolchain.backends.packed.algorithms.dense.operands import ProductOperands
from toolchain.backends.packed.recognise.expressions import bind
from toolchain.backends.packed.recognise.matmul import Operand
from toolchain.backends.packed.recognise.read import Expr, shape_of


class Contiguity(Enum):
    """The axis along which an operand is contiguous, and whether copies of 16 bytes may move its vectors."""

    VECTORS = "vectors along the inner axis"
    ACROSS = "vectors along columns"
    INWARD = "neighbours along the inner axis"
    APART = "in another way"


def contiguity(operands: ProductOperands, operand: Operand) -> Contiguity:
    """Return along which axis an operand is contiguous."""
    product, lanes = operands.product, operands.nest.machine.lanes
    analyzer = operands.analyzer
    is_right = operand is product.b
    outer = product.columns.extent if is_right else product.rows.extent
    batch: list[Expr] = [
        bind(analyzer, tirx.Var("batch", "int32"), extent) for extent in product.batch.extents
    ]
    lane = bind(analyzer, tirx.Var("lane", "int32"), lanes)
    one = bind(analyzer, tirx.Var("one", "int32"), outer)
    vector = bind(analyzer, tirx.Var("vector", "int32"), -(-max(outer, product.inner.extent) // lanes))
    k = bind(analyzer, tirx.Var("k", "int32"), product.inner.extent)

    def place(at: Expr, inner: Expr) -> Expr | None:
        row, column = (None, at) if is_right else (at, None)
        return _address(operands.load(operand, batch, row, inner, column))

    def together(begin: Expr | None, end: Expr | None) -> bool:
        return begin is not None and end is not None and analyzer.can_prove_equal(end - begin, lane)

    def full(begin: Expr | None, extent: int) -> bool:
        return begin is not None and extent % lanes == 0 and analyzer.can_prove_equal(begin % lanes, 0)

    start: Expr = vector * lanes
    inward, inward_end = place(one, start), place(one, start + lane)
    if together(inward, inward_end):
        if not is_right and full(inward, product.inner.extent):
            return Contiguity.VECTORS
        return Contiguity.INWARD
    across, across_end = place(start, k), place(start + lane, k)
    if is_right and together(across, across_end) and full(across, product.columns.extent):
        return Contiguity.ACROSS
    return Contiguity.APART


def _address(value: Expr) -> Expr | None:
    """Return the number of an element in its buffer; None for a value that is computed."""
    if not isinstance(value, TensorLoad):
        return None
    at: Expr = tirx.IntImm("int32", 0)
    for index, extent in zip(value.indices, shape_of(value.source), strict=True):
        at = at * extent + index
    return at
