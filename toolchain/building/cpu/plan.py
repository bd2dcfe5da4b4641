"""What becomes of every call of a fused network: its rule, its choice, and the layouts of the values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeAlias

import tvm
from tvm import relax, tirx
from tvm.ir.expr import GenericConst

from toolchain.building.cpu.choice import GENERAL, Choice
from toolchain.building.cpu.concatenation import operands
from toolchain.building.cpu.convolution import Convolution
from toolchain.building.cpu.core import Core
from toolchain.building.cpu.general import general
from toolchain.building.cpu.generators import GENERATORS, Generator
from toolchain.building.cpu.layout import Layout
from toolchain.building.cpu.matmul import Matmul
from toolchain.building.cpu.policy import default_choice
from toolchain.building.cpu.read import Read, UnreadableError, read, shape_of
from toolchain.building.cpu.split import parts, until
from toolchain.building.cpu.transposed import Transposed
from toolchain.building.cpu.work import Work

FLOATS = ("float32", "float16")
# Name of a fused function and what it computes -> how; None: by the general rule.
Choose = Callable[[str, Work], "Choice | None"]
# A function, and what it was split into, each with its contraction.
Known: TypeAlias = tuple[Read, list[tuple[Read, "Work | None"]]]


@dataclass(frozen=True)
class Step:
    """One binding of the network, of a Relax expression that is no function's call."""

    var: relax.Var
    value: relax.Expr


@dataclass(frozen=True)
class Call(Step):
    """The call of a fused function; by itself one that keeps its default schedule."""

    function: str

    @property
    def arguments(self) -> list[relax.Expr]:
        """What is handed over, outputs apart."""
        return list(self.value.args[1].fields)


@dataclass(frozen=True)
class Generated(Call):
    """A call whose function is generated; without `work` by the general rule."""

    read: Read
    choice: Choice = GENERAL
    work: Work | None = None

    @property
    def generator(self) -> Generator | None:
        """What makes the function; None: the general rule."""
        return None if self.work is None else GENERATORS[self.choice.algorithm]

    def argument(self, buffer: tirx.Buffer) -> relax.Expr:
        """Return what is handed over for a parameter."""
        return self.arguments[self.read.parameter(buffer)]


@dataclass
class Plan:
    """The steps in their order, and how their values lie in memory.

    Attributes
    ----------
    blocked
        Values that are read in blocks though they have fewer channels than one.
    concatenations
        Concatenated value -> its operands, and the block at which each begins.
    places
        Operand that is computed inside its concatenation -> which, and the block at which it begins.
    """

    lanes: int
    steps: list[Step] = field(default_factory=list)
    packed: set[relax.Var] = field(default_factory=set)
    halos: dict[relax.Var, tuple[int, ...]] = field(default_factory=dict)
    blocked: set[relax.Var] = field(default_factory=set)
    concatenations: dict[relax.Var, list[tuple[relax.Var, int]]] = field(default_factory=dict)
    places: dict[relax.Var, tuple[relax.Var, int]] = field(default_factory=dict)

    def part(self, whole: relax.Var, offset: int) -> Layout:
        """Return the layout of an operand inside its concatenation."""
        layout = self.layout(whole)
        return replace(layout, offset=offset, whole=layout.blocks(extents(whole)[1]))

    def layout(self, value: relax.Var) -> Layout:
        """Return the layout of a value where it is packed."""
        if value in self.places:
            return self.part(*self.places[value])
        shape = extents(value)
        blocks = value in self.packed or value in self.blocked or shape[1] >= self.lanes
        return Layout(self.lanes if blocks else 1, self.halos.get(value, (0,) * (2 * (len(shape) - 2))))


def extents(value: relax.Expr) -> tuple[int, ...]:
    """Return the shape of a Relax value."""
    return tuple(int(extent) for extent in value.ty.shape)


def images(value: relax.Expr) -> bool:
    """Whether a value is a batch of images (or rows, or volumes) of floats."""
    if not isinstance(value, relax.Var) or not isinstance(value.ty, relax.TensorType):
        return False
    return len(value.ty.shape) in (3, 4, 5) and str(value.ty.dtype) in FLOATS


def packable(value: relax.Expr) -> bool:
    """Whether a value is a batch of images of more than one pixel: then it may stay packed."""
    return images(value) and prod(extents(value)[2:]) > 1


def plan(fused: tvm.IRModule, core: Core, choose: Choose) -> Plan:
    """Plan every call of the network's function `main`."""
    known: dict[str, Known | None] = {}
    result = Plan(core.lanes)
    bindings = [binding for block in fused["main"].body.blocks for binding in block.bindings]
    outputs = _outputs(fused, bindings, known, core)
    for binding in bindings:
        if binding.var in outputs:
            steps: list[Step] = list(outputs[binding.var])
        else:
            steps = _steps(fused, binding, known, choose, core)
        for step in steps:
            result.steps.append(step)
            if isinstance(step, Generated):
                _place(step, result)
    _concatenate(result, fused["main"].body.body)
    return result


def _outputs(
    fused: tvm.IRModule, bindings: list[relax.Binding], known: dict[str, Known | None], core: Core
) -> dict[relax.Var, list[Generated]]:
    """Cut functions with several outputs into one for each that is used.

    Returns
    -------
    dict
        Binding of an output -> the step that computes it; of the function's call -> no step.
    """
    body = fused["main"].body.body
    items = [each for each in bindings if isinstance(each.value, relax.TupleGetItem)]
    others = [each.value for each in bindings if not isinstance(each.value, relax.TupleGetItem)]
    whole = {var for value in (*others, body) for var in _variables(value)}
    found: dict[relax.Var, list[Generated]] = {}
    for binding in bindings:
        var, value = binding.var, binding.value
        if not _called(value) or not isinstance(value.ty, relax.TupleType) or var in whole:
            continue
        name = value.args[0].name_hint
        if name not in known:
            known[name] = _known(fused[name], core)
        function = known[name]
        if function is None:
            continue
        outputs = function[0].params[-len(value.ty.fields) :]
        parts_ = [until(function[0], output) for output in outputs]
        if not all(_general(part, core) for part in parts_):
            continue
        found[var] = []
        used = [item for item in items if item.value.tuple_value.same_as(var)]
        for number, item in enumerate(used):
            part, place = parts_[item.value.index], item.value.index
            arguments = [
                argument
                for param, argument in zip(function[0].params, value.args[1].fields, strict=False)
                if any(param.same_as(own) for own in part.params)
            ]
            call = relax.call_tir(value.args[0], arguments, value.ty.fields[place])
            own = f"{name}_output{place}" if number else name  # the first keeps the task's name
            found[item.var] = [Generated(item.var, call, own, part)]
    return found


def _concatenate(result: Plan, output: relax.Expr) -> None:
    """Find the operands of concatenations that can be computed in place: nothing else reads them."""
    uses: Counter[relax.Var] = Counter()
    for value in (*(step.value for step in result.steps), output):
        uses.update(_variables(value))
    made = {step.var for step in result.steps if isinstance(step, Generated)}
    for step in result.steps:
        if not isinstance(step, Generated) or step.work is not None or step.var not in result.packed:
            continue
        values = [(step.arguments[place], block) for place, block in operands(step.read, result.lanes) or []]
        if not values or not all(packable(value) for value, _block in values):
            continue
        placed = {
            value: (step.var, block)
            for value, block in values
            if uses[value] == 1 and value in made & result.packed and value not in result.concatenations
        }
        if placed:
            result.concatenations[step.var] = values
            result.places.update(placed)


def _variables(value: relax.Expr) -> list[relax.Var]:
    """Return the variables in an expression, once for every place where they are."""
    if isinstance(value, relax.Var):
        return [value]
    if isinstance(value, relax.Tuple):
        return [var for each in value.fields for var in _variables(each)]
    if isinstance(value, relax.TupleGetItem):
        return _variables(value.tuple_value)
    if isinstance(value, relax.Call):
        return [var for each in value.args for var in _variables(each)]
    return []


def _steps(
    fused: tvm.IRModule, binding: relax.Binding, known: dict[str, Known | None], choose: Choose, core: Core
) -> list[Step]:
    var, value = binding.var, binding.value
    if not _called(value):
        return [Step(var, value)]
    name = value.args[0].name_hint
    if name not in known:
        known[name] = _known(fused[name], core)
    found = known[name]
    if found is None or not isinstance(value.ty, relax.TensorType):
        return [Call(var, value, name)]
    whole, functions = found
    if len(functions) == 1:
        return [
            _computed(Generated(var, value, name, whole), functions[0][1], lambda work: choose(name, work))
        ]
    steps: list[Step] = []
    values = list(zip(whole.params, value.args[1].fields, strict=False))
    first = next(number for number, (_part, work) in enumerate(functions) if work is not None)
    for number, (part, work) in enumerate(functions):
        arguments = [expr for param in part.params[:-1] for own, expr in values if own.same_as(param)]
        ty = relax.TensorType(shape_of(part.output), str(part.output.dtype))
        target = var if number == len(functions) - 1 else relax.Var(f"{name}_value{number}", ty)
        values.append((part.output, target))
        call = relax.call_tir(value.args[0], arguments, ty)
        # A record is for one contraction, the first, which keeps the function's name.
        if number == first:
            step = Generated(target, call, name, part)
            steps.append(_computed(step, work, lambda work: choose(name, work)))
        else:
            step = Generated(target, call, f"{name}_part{number}", part)
            steps.append(_computed(step, work, lambda work: default_choice(work, core, True)))
    return steps


def _called(value: relax.Expr) -> bool:
    return isinstance(value, relax.Call) and value.op == tvm.ir.Op.get("relax.call_tir")


def _general(function: Read, core: Core) -> bool:
    """Whether the general rule knows a function."""
    try:
        general(function, [None] * len(function.params), core)
    except UnreadableError:
        return False
    return True


def _known(func: tirx.PrimFunc, core: Core) -> Known | None:
    """Return a function and its parts; None where it keeps its default schedule."""
    try:
        whole = read(func)
    except UnreadableError:
        return None
    found = parts(whole)
    if len(found) > 1 and not all(work is not None or _general(part, core) for part, work in found):
        return whole, [(whole, None)]
    return whole, found


def _computed(step: Generated, work: Work | None, choose: Callable[[Any], Choice | None]) -> Generated:
    """Return a step with how its contraction is computed."""
    if isinstance(work, Matmul):
        if work.weight is not None and not isinstance(step.argument(work.weight), GenericConst):
            work = None if work.window is not None else replace(work, weight=None)
    elif work is not None and not _packs(step, work):
        work = None
    choice = None if work is None else choose(work)
    return step if choice is None else replace(step, choice=choice, work=work)


def _packs(step: Generated, conv: Convolution | Transposed) -> bool:
    """Whether a convolution's weight is known, and its input and output are packed."""
    return (
        isinstance(step.argument(conv.weight), GenericConst)
        and prod(conv.out) > 1
        and packable(step.var)
        and images(step.argument(conv.x))
    )


def _place(step: Generated, result: Plan) -> None:
    """Decide whether the step's value is packed, and what halo its input needs."""
    if step.work is not None and step.generator is not None:
        if step.generator.halo is not None and not isinstance(step.work, Matmul):
            result.packed.add(step.var)
            source = step.argument(step.work.x)
            need = step.generator.halo(step.work, step.choice)
            have = result.halos.get(source, (0,) * len(need))
            result.halos[source] = tuple(map(max, have, need))
            if step.choice.algorithm == "depthwise":
                result.blocked.add(source)
            for operand in filter(packable, step.arguments):  # what is added to the output is read as it is
                if extents(operand)[1] == extents(step.var)[1]:
                    result.blocked.add(operand)
    elif packable(step.var):
        shape = extents(step.var)
        for source in step.arguments:
            if isinstance(source, relax.Var) and source in result.packed:
                theirs = extents(source)
                if len(theirs) == len(shape) and (shape[1] >= result.lanes or theirs[1] == shape[1]):
                    result.packed.add(step.var)
