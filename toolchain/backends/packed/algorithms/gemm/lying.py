"""How an operand of a product lies in memory, as far as copies to shared memory are concerned."""

from __future__ import annotations

from enum import Enum

from tvm import tirx
from tvm.ir.expr import TensorLoad

from toolchain.backends.packed.algorithms.dense.operands import Operands
from toolchain.backends.packed.recognise.expressions import bind
from toolchain.backends.packed.recognise.matmul import Operand
from toolchain.backends.packed.recognise.read import Expr, shape_of


class Lying(Enum):
    """Whether numbers lie beside each other, and in vectors that copies of 16 bytes may move."""

    VECTORS = "vectors along the inner axis"
    ACROSS = "vectors along columns"
    INWARD = "neighbours along the inner axis"
    APART = "in another way"


def lying(operands: Operands, operand: Operand) -> Lying:
    """Return how an operand lies."""
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
            return Lying.VECTORS
        return Lying.INWARD
    across, across_end = place(start, k), place(start + lane, k)
    if is_right and together(across, across_end) and full(across, product.columns.extent):
        return Lying.ACROSS
    return Lying.APART


def _address(value: Expr) -> Expr | None:
    """Return the number of an element in its buffer; None for a value that is computed."""
    if not isinstance(value, TensorLoad):
        return None
    at: Expr = tirx.IntImm("int32", 0)
    for index, extent in zip(value.indices, shape_of(value.source), strict=True):
        at = at * extent + index
    return at
