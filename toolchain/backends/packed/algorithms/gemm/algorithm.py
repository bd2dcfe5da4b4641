"""The algorithm `gemm`: a matrix product in tiles, in a GPU's shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum
from functools import lru_cache
from itertools import product as pairs
from math import prod

import numpy as np
from tvm import tirx
from tvm.ir.expr import TensorLoad

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Algorithm, Cost
from toolchain.backends.packed.algorithms.dense.loops import ProductOperands
from toolchain.backends.packed.algorithms.implicit_gemm import algorithm as implicit_gemm
from toolchain.backends.packed.algorithms.implicit_gemm import choice as of_convolution
from toolchain.backends.packed.algorithms.implicit_gemm.algorithm import cost as cost_of_products
from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice, steps_of
from toolchain.backends.packed.algorithms.implicit_gemm.loops import TiledProduct
from toolchain.backends.packed.algorithms.implicit_gemm.tensor_cores import place_of_half
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.work_group import ARRIVALS, WORD, copy_number, copy_vector
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import MOST_GROUPS, places
from toolchain.backends.packed.recognise.contraction import Contraction, Matmul, Operand
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.expressions import bind
from toolchain.backends.packed.recognise.read import Expr, Read, shape_of

# The choice of the algorithm `gemm`.


@dataclass(frozen=True)
class GemmChoice(ImplicitGemmChoice):
    """The tile of a work group: columns of the product are its output channels, rows its places."""

    algorithm = "gemm"


# Finds the axis along which an operand is contiguous, for wide copies to shared memory.


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


# A product of matrices as the convolution of 1x1 that sums up the same, for estimates and packed weights.


def pointwise(product: Matmul) -> Convolution:
    """Return the convolution whose places are a product's rows, and whose output channels are its columns."""
    return Convolution(
        batch=1,
        ci=product.inner.extent,
        co=product.columns.extent,
        groups=1,
        size=(product.rows.extent,),
        kernel=(1,),
        out=(product.rows.extent,),
        stride=(1,),
        dilation=(1,),
        x=product.a.buffer,
        weight=product.b.buffer,
        y=product.y,
        pads=(0, 0),
    )


# The packed weight of a product of matrices in tiles.


def weight_shape(product: Matmul, choice: GemmChoice, lanes: int) -> tuple[int, ...]:
    """Return (matrices, tiles of columns, units, inner places of a unit, columns of a tile)."""
    batch = zip(product.batch.extents, product.batch_of_b, strict=True)
    matrices = prod(extent for extent, read in batch if read)
    return (matrices, *of_convolution.weight_shape(pointwise(product), choice, lanes))


def pack_weight(value: Array, product: Matmul, choice: GemmChoice, lanes: int) -> Array:
    """Return a constant right operand, packed as `weight_shape`."""
    conv = pointwise(product)
    packed = [
        of_convolution.pack_weight(matrix.T[:, :, None], conv, choice, lanes)
        for matrix in product.matrix(value)
    ]
    return np.stack(packed)


# The choices of `gemm`, ordered by their estimated cost.

_FEW = 8  # rows with which the items of a group share out the inner axis rather than places
_SPLITS = (1, 2, 4, 8)


def candidates(product: Matmul, machine: Machine) -> list[GemmChoice]:
    """Return the choices that a tuner may measure, those with the lowest estimated cost first."""
    return [*_candidates(product, machine)]


def legal(choice: GemmChoice, product: Matmul, machine: Machine) -> bool:
    """Return whether a choice fits the product, the registers and the shared memory."""
    conv = pointwise(product)
    if not implicit_gemm.legal(choice, conv, machine):
        return False
    if choice.on_tensor_cores and choice.arithmetic != "f16" and product.weight is None:
        return False  # copies that put each number where tensor cores take it are worth it for float16 alone
    wide = -(-conv.co // choice.channels(machine.lanes))
    tiles = wide * -(-product.rows.extent // choice.places) * product.batch.extent
    return max(wide, product.batch.extent * choice.splits) <= MOST_GROUPS and (
        choice.splits == 1 or tiles <= ARRIVALS
    )


def cost(choice: GemmChoice, product: Matmul, machine: Machine) -> Cost:
    """Return the estimated cost."""
    return cost_of_products(choice, pointwise(product), machine, product.batch.extent)


@lru_cache(maxsize=256)
def _candidates(product: Matmul, machine: Machine) -> tuple[GemmChoice, ...]:
    timed = [
        (cost(choice, product, machine).seconds, number, choice)
        for number, choice in enumerate(map(_own, _space(product, machine)))
        if legal(choice, product, machine)
    ]
    return tuple(
        choice for _seconds, _number, choice in sorted(timed, key=lambda each: each[:2])[: implicit_gemm.MOST]
    )


def _own(choice: ImplicitGemmChoice) -> GemmChoice:
    return GemmChoice(**{each.name: getattr(choice, each.name) for each in fields(choice)})


def _space(product: Matmul, machine: Machine) -> Iterator[ImplicitGemmChoice]:
    if product.rows.extent <= _FEW and product.dtype == "float32":
        yield from _few(product.rows.extent)
    yield from implicit_gemm.choices(pointwise(product), machine)


def _few(rows: int) -> Iterator[ImplicitGemmChoice]:
    """Yield choices whose items have all rows of a few columns, and share out the inner axis."""
    for own, across, slices, deep, stages in pairs((1, 2), (1, 2, 4, 8), (8, 16, 32, 64), (1, 2), (2, 3)):
        for splits in _SPLITS:
            yield ImplicitGemmChoice(own, rows, (across, 1), slices, splits, slices * deep, stages)


# Matrix products in tiles, in shared memory: a `TiledProduct` whose places are rows, whose channels
# columns.
#
# Operands that lie in vectors are copied in vectors, others number by number. What is computed on the way
# (an operand that fusion did not store) is computed once for each tile that reads it.


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


class SharedGemm(Algorithm[Matmul, GemmChoice]):
    """Matrix product whose tiles a work group keeps in shared memory."""

    choice = GemmChoice

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it is a product of floats, on a GPU."""
        return (
            machine.gpu is not None
            and isinstance(contraction, Matmul)
            and contraction.dtype in ("float32", "float16")
        )

    def default(self, contraction: Matmul, machine: Machine) -> GemmChoice | None:
        """Return the choice with the lowest estimated cost."""
        found = candidates(contraction, machine)
        return found[0] if found else None

    def candidates(self, contraction: Matmul, machine: Machine) -> list[GemmChoice]:
        """Return the choices that a tuner may measure."""
        return candidates(contraction, machine)

    def legal(self, choice: GemmChoice, contraction: Matmul, machine: Machine) -> bool:
        """Return whether a choice fits the product, the registers and the shared memory."""
        return legal(choice, contraction, machine)

    def cost(self, choice: GemmChoice, contraction: Matmul, machine: Machine) -> Cost:
        """Return the estimated cost."""
        return cost(choice, contraction, machine)

    def weight(
        self, value: Array, contraction: Matmul, choice: GemmChoice, machine: Machine, input_lanes: int
    ) -> Array:
        """Return the weight, packed as `weight_shape`."""
        del input_lanes
        return pack_weight(value, contraction, choice, machine.lanes)

    def function(
        self, read: Read, contraction: Matmul, choice: GemmChoice, layouts: Layouts, machine: Machine
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        return gemm(read, contraction, choice, layouts, machine)
