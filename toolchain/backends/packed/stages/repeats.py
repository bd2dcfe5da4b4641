"""Element-wise stages of plain values that repeat every number of a row: nearest resizes by a whole factor.

Vectors along the output's last axis would gather its operand number by number. Here a vector of the operand
is loaded once, and shuffled into as many vectors of the output as each number has places there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain import tvm_compat
from toolchain.backends.packed.recognise.expressions import bind, calls, linear, substitute
from toolchain.backends.packed.recognise.read import Expr, Var, loads, shape_of
from toolchain.backends.packed.stages.value import StageValue

_LEAST = 4  # lanes of the shortest vector
_FACTORS = (2, 3, 4, 8)


@dataclass(frozen=True, eq=False)
class RepeatedOperand:
    """A load: its buffer, its address at the start of a vector, and its steps by number and by repetition."""

    buffer: tirx.Buffer
    address: Expr
    steps: tuple[int, int]
    stand_in: Var


@dataclass(frozen=True)
class Repeats:
    """A stage whose last axis repeats each number.

    Attributes
    ----------
    factor
        Places of a number in a row of the output.
    size
        Numbers of a vector.
    outer, start
        Variables of the addresses: the output's other axes, and the first number of the vector.
    value
        The stage's value, with a variable in place of each load.
    """

    factor: int
    size: int
    outer: tuple[Var, ...]
    start: Var
    operands: tuple[RepeatedOperand, ...]
    value: Expr


def factor_of(index: Expr, axis: Var, extent: int) -> int | None:
    """Return by how much an index repeats its numbers along an axis; None if it does not."""
    if linear(index, [axis]) is not None:
        return None
    for factor in _FACTORS:
        if extent % factor or extent // factor < _LEAST:
            continue
        analyzer = Analyzer()
        number = bind(analyzer, tirx.Var("number", "int32"), extent // factor)
        repetition = bind(analyzer, tirx.Var("repetition", "int32"), factor)
        at = substitute(index, [(axis, number * factor + repetition)], tirx.BufferLoad)
        form = linear(analyzer.simplify(at), [number, repetition])
        if form is not None and form[0] == {0: 1}:
            return factor
    return None


def repeats_of(value: StageValue) -> Repeats | None:
    """Return how a stage repeats the numbers of a row; None if it does not, or has conditions."""
    shape, stage = shape_of(value.stage.buffer), value.stage
    if value.reduces or len(stage.parts) > 1 or value.memory.nest.machine.pieces.fine or not shape:
        return None
    analyzer = Analyzer()
    index = [bind(analyzer, tirx.Var(f"i{axis}", "int32"), extent) for axis, extent in enumerate(shape)]
    quotients: list[Expr] = []
    kinds = [(kind, quotients.append) for kind in (tirx.Div, tirx.FloorDiv)]
    tvm_compat.walked(value.at(stage.value, index, [], analyzer), kinds)
    if not quotients:
        return None
    return next((whole for factor in _FACTORS if (whole := _by_factor(value, shape, factor))), None)


def _by_factor(value: StageValue, shape: Sequence[int], factor: int) -> Repeats | None:
    size, many = value.memory.lanes, shape[-1] // factor
    while size > many:
        size //= 2
    if shape[-1] % factor or size < _LEAST:
        return None
    analyzer = Analyzer()
    outer = [bind(analyzer, tirx.Var(f"i{axis}", "int32"), extent) for axis, extent in enumerate(shape[:-1])]
    start = bind(analyzer, tirx.Var("start", "int32"), many - size + 1)
    number = bind(analyzer, tirx.Var("number", "int32"), size)
    repetition = bind(analyzer, tirx.Var("repetition", "int32"), factor)
    last = (start + number) * factor + repetition
    whole = value.at(value.stage.value, [*outer, last], [], analyzer)
    if calls(whole, "if_then_else"):
        return None
    operands = []
    for load in loads(whole):
        address: Expr = tirx.IntImm("int32", 0)
        for place, extent in zip(load.indices, shape_of(load.source), strict=True):
            address = address * extent + place
        form = linear(analyzer.simplify(address), [number, repetition])
        steps = None if form is None else (form[0].get(0, 0), form[0].get(1, 0))
        dtype = str(load.source.dtype)
        if form is None or steps not in ((1, 0), (factor, 1), (0, 0)) or dtype == "bool":
            return None
        operands.append(RepeatedOperand(load.source, form[1], steps, tirx.Var("value", dtype)))
    if not any(operand.steps == (1, 0) for operand in operands):
        return None
    stand_ins = iter(operands)
    inner = tvm_compat.mutated(whole, [(TensorLoad, lambda _load, _mutator: next(stand_ins).stand_in)])
    used: list[Var] = []
    tvm_compat.walked(inner, [(tirx.Var, used.append)])
    if len(used) != len(operands):  # it uses the axes for more than addresses
        return None
    return Repeats(factor, size, tuple(outer), start, tuple(operands), inner)


def repeated(value: StageValue, repeats: Repeats, out: tirx.Buffer) -> None:
    """Emit the loops of a stage; the last vector of a row shares some numbers with the one before."""
    nest, shape = value.memory.nest, shape_of(out)
    factor, size, many = repeats.factor, repeats.size, shape[-1] // repeats.factor
    flat: dict[tirx.Buffer, tirx.Buffer] = {}
    for operand in repeats.operands:
        if operand.buffer not in flat:
            count = prod(shape_of(operand.buffer))
            flat[operand.buffer] = ir.decl_buffer(
                (count,), str(operand.buffer.dtype), data=operand.buffer.data
            )
    with value.memory.pieces(shape[:-1], value.stage) as row, nest.serial(-(-many // size)) as step:
        start = tirx.min(step * size, many - size)
        bound = [*zip(repeats.outer, row, strict=True), (repeats.start, start)]

        def address(operand: RepeatedOperand) -> Expr:
            return nest.simplify(substitute(operand.address, bound, tirx.BufferLoad))

        spread = {
            operand: tirx.BufferLoad(flat[operand.buffer], [tirx.Ramp(address(operand), 1, size)])
            for operand in repeats.operands
            if operand.steps == (1, 0)
        }
        for part in range(factor):
            buffers = {}
            for operand, vector in spread.items():
                order = [(part * size + lane) // factor for lane in range(size)]
                buffers[operand] = nest.local((size,), str(operand.buffer.dtype))
                ir.buffer_store(buffers[operand], tirx.Shuffle([vector], order), [tirx.Ramp(0, 1, size)])
            with nest.vector(size) as lane:
                numbers: list[tuple[Var, Expr]] = []
                for operand in repeats.operands:
                    if operand in buffers:
                        number = buffers[operand][lane]
                    else:
                        along = part * size + lane if operand.steps[1] else tirx.IntImm("int32", 0)
                        number = flat[operand.buffer][nest.simplify(address(operand) + along)]
                    numbers.append((operand.stand_in, number))
                last = nest.simplify(start * factor + part * size + lane)
                ir.buffer_store(out, substitute(repeats.value, numbers, tirx.BufferLoad), [*row, last])
