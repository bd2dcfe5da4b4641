"""Element-wise stages of plain values that read some operand across its rows: transposes, and what follows.

Vectors along the last axis of the output would gather such an operand number by number. Here a square of
vectors is loaded along the axis on which the operand is contiguous, and transposed in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm import DataType, tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain import tvm_compat
from toolchain.backends.packed.loops.squares import transposed, vector
from toolchain.backends.packed.recognise.expressions import bind, calls, linear, substitute, variables_of
from toolchain.backends.packed.recognise.read import Expr, Var, loads, shape_of
from toolchain.backends.packed.stages.value import StageValue

_LEAST = 4  # rows and columns of the smallest square
_PIECES = 8  # parallel pieces per thread
_LINE = 64  # bytes of a line of the caches: neighbouring squares read all of it
_INDICES = 1 << 31  # addresses are int32


@dataclass(frozen=True)
class TurnedOperand:
    """A load: its buffer, and how far apart in it neighbours on each axis of the output are."""

    buffer: tirx.Buffer
    strides: tuple[int, ...]
    start: int
    stand_in: Var


@dataclass(frozen=True)
class Turned:
    """An element-wise stage by the addresses that it reads and writes.

    Attributes
    ----------
    extents
        Of the output, neighbouring axes joined where all operands allow it.
    axis
        The axis on which the operands that are read across their rows are contiguous.
    size
        Rows and columns of a square.
    operands
        All loads; `value` has a variable in place of each.
    """

    extents: tuple[int, ...]
    axis: int
    size: int
    operands: tuple[TurnedOperand, ...]
    value: Expr


def turned_of(value: StageValue) -> Turned | None:
    """Return how squares compute a stage; None if it reads nothing across its rows, or has conditions."""
    shape = shape_of(value.stage.buffer)
    if value.reduces or len(value.stage.parts) > 1 or value.memory.nest.machine.pieces.fine:
        return None
    analyzer = Analyzer()
    index = [bind(analyzer, tirx.Var(f"i{axis}", "int32"), extent) for axis, extent in enumerate(shape)]
    whole = value.at(value.stage.value, index, [], analyzer)
    numbers = loads(whole)
    operands = [operand for load in numbers if (operand := _operand(load, index, analyzer)) is not None]
    if len(operands) < len(numbers) or not operands or calls(whole, "if_then_else"):
        return None
    stand_ins = iter(operands)
    inner = tvm_compat.mutated(whole, [(TensorLoad, lambda _load, _mutator: next(stand_ins).stand_in)])
    if any(variable.same_as(own) for variable in variables_of(inner) for own in index):
        return None
    return _squares(shape, operands, inner, value.memory.lanes)


def _operand(load: TensorLoad, index: Sequence[Var], analyzer: Analyzer) -> TurnedOperand | None:
    """Return a load whose address is linear in all axes; None for another."""
    shape = shape_of(load.source)
    address: Expr = tirx.IntImm("int32", 0)
    for place, extent in zip(load.indices, shape, strict=True):
        address = address * extent + place
    form = linear(analyzer.simplify(address), index)
    dtype = str(load.source.dtype)
    if form is None or not isinstance(form[1], tirx.IntImm) or dtype == "bool" or prod(shape) >= _INDICES:
        return None
    strides = tuple(form[0].get(axis, 0) for axis in range(len(index)))
    return TurnedOperand(load.source, strides, int(form[1]), tirx.Var("number", dtype))


def _squares(
    shape: Sequence[int], operands: Sequence[TurnedOperand], value: Expr, lanes: int
) -> Turned | None:
    """Join axes and choose the squares; None if no axis is contiguous in all operands read across rows."""
    extents: list[int] = []
    kept: list[int] = []  # the last axis of each group that is joined
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        if kept and all(each.strides[kept[-1]] == extent * each.strides[axis] for each in operands):
            extents[-1] *= extent
            kept[-1] = axis
        else:
            extents.append(extent)
            kept.append(axis)
    joined = tuple(
        TurnedOperand(each.buffer, tuple(each.strides[axis] for axis in kept), each.start, each.stand_in)
        for each in operands
    )
    across = [each for each in joined if kept and each.strides[-1] not in (0, 1)]
    axes = [axis for axis in range(len(kept) - 1) if all(each.strides[axis] == 1 for each in across)]
    if not across or not axes or prod(shape) >= _INDICES:
        return None
    axis = max(axes, key=lambda each: extents[each])
    size = lanes
    while size > min(extents[axis], extents[-1]):
        size //= 2
    if size < _LEAST:
        return None
    return Turned(tuple(extents), axis, size, joined, value)


def turned(value: StageValue, squares: Turned, out: tirx.Buffer) -> None:
    """Emit the loops of a stage in squares; the last square of an axis shares some with the one before."""
    _Loops(value, squares, out).emit()


class _Loops:
    """Generator of a stage's loops.

    Attributes
    ----------
    out
        The output's numbers as one row.
    """

    def __init__(self, value: StageValue, squares: Turned, out: tirx.Buffer) -> None:
        self.value, self.squares, self.nest = value, squares, value.memory.nest
        self.out = _flat(out)
        self._flat: dict[tirx.Buffer, tirx.Buffer] = {}
        for operand in squares.operands:
            if operand.buffer not in self._flat:
                self._flat[operand.buffer] = _flat(operand.buffer)

    def emit(self) -> None:
        """Emit all loops; a piece has some squares of neighbouring rows."""
        squares, threads = self.squares, self.nest.machine.threads
        extents, axis, size = squares.extents, squares.axis, squares.size
        rows, columns = (-(-extents[place] // size) for place in (axis, -1))
        number_bytes = DataType(str(self.out.dtype)).itemsize
        beside = max(1, min(rows, _LINE // (size * number_bytes)))
        others = [extent for place, extent in enumerate(extents[:-1]) if place != axis]
        space = [*others, -(-rows // beside)]
        parts = min(columns, max(1, _PIECES * threads // prod(space)))
        count = -(-columns // parts)
        with self.value.memory.pieces([*space, -(-columns // count)], self.value.stage) as (*at, row, part):
            first = part * count
            fewer = None if columns % count == 0 else tirx.min(count, columns - first)
            with self.nest.serial(count, fewer) as column, self.nest.serial(beside) as neighbour:
                top = tirx.min((row * beside + neighbour) * size, extents[axis] - size)
                left = tirx.min((first + column) * size, extents[-1] - size)
                self._square([*at[:axis], top, *at[axis:], left])

    def _square(self, place: Sequence[Expr]) -> None:
        squares, size = self.squares, self.squares.size
        transposes = [self._transposed(operand, place) for operand in squares.operands]
        strides = [prod(squares.extents[axis + 1 :]) for axis in range(len(squares.extents))]

        def store(row: Expr) -> None:
            with self.nest.vector(size) as lane:
                bound: list[tuple[Var, Expr]] = []
                for operand, square in zip(squares.operands, transposes, strict=True):
                    if square is not None:
                        number = square[row * size + lane]
                    else:
                        number = self._flat[operand.buffer][
                            self._address(operand.strides, place, row, lane, operand.start)
                        ]
                    bound.append((operand.stand_in, number))
                value = substitute(squares.value, bound, tirx.BufferLoad)
                ir.buffer_store(self.out, value, [self._address(strides, place, row, lane)])

        if calls(squares.value):  # its code is long
            with self.nest.serial(size) as row:
                store(row)
        else:
            for number in range(size):
                store(tirx.IntImm("int32", number))

    def _transposed(self, operand: TurnedOperand, place: Sequence[Expr]) -> tirx.Buffer | None:
        """Emit the transpose of an operand's square; None for one that is read along its rows."""
        size = self.squares.size
        if operand.strides[-1] in (0, 1):
            return None
        square = self.nest.local((size * size,), str(operand.buffer.dtype))
        for column in range(size):
            address = self._address(operand.strides, place, 0, column, operand.start)
            numbers = tirx.BufferLoad(self._flat[operand.buffer], [tirx.Ramp(address, 1, size)])
            ir.buffer_store(square, numbers, [vector(column, size)])
        return transposed(self.nest, square, size)

    def _address(
        self,
        strides: Sequence[int],
        place: Sequence[Expr],
        row: Expr | int,
        column: Expr | int,
        start: int = 0,
    ) -> Expr:
        """Return the address of a number in the square whose first one is at `place`."""
        address: Expr = tirx.IntImm("int32", start)
        for at, stride in zip(place, strides, strict=True):
            address = address + at * stride
        return self.nest.simplify(address + row * strides[self.squares.axis] + column * strides[-1])


def _flat(buffer: tirx.Buffer) -> tirx.Buffer:
    """Return a buffer's numbers as one row."""
    flat: tirx.Buffer = ir.decl_buffer((prod(shape_of(buffer)),), str(buffer.dtype), data=buffer.data)
    return flat
