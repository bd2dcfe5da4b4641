"""Plans every call of a fused network: its rule, its choice, and the layouts of its values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import tvm
from tvm import relax, tirx
from tvm.ir.expr import GenericConst

from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network.agreement import Agreement
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.concatenation import operands
from toolchain.backends.packed.network.functions import Functions, called, variables
from toolchain.backends.packed.network.steps import (
    Call,
    Generated,
    Plan,
    PlanStep,
    Recurrent,
    extents,
    images,
    packable,
)
from toolchain.backends.packed.recognise.contraction import Contraction, until
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.expressions import variables_of
from toolchain.backends.packed.recognise.read import Read, Var, loads, shape_of
from toolchain.backends.packed.stages.recurrent import recurrence_of
from toolchain.models.multi_shape import MAIN, entries

# Functions that move the channels of a value to another axis, as from NCHW to NHWC.

_CHANNELS = 1
_SUMMED = -1  # an axis that is reduced over


def moves_channels(read: Read, place: int) -> bool:
    """Return whether a parameter's channels, its axis 1, become another axis of the output.

    Such an output is better left plain. Its blocks would be of what the input keeps apart, and channels that
    lie side by side in the input would be read one by one; so would they by its readers, which mostly compute
    along the channels.
    """
    # By buffer, the output's axes that each axis of it depends on.
    axes = {read.output: [{number} for number in range(len(read.output.shape))]}
    for stage in reversed(read.stages):
        for part in stage.parts:
            if part.buffer not in axes:
                continue
            known = _by_variable(stage.axes, stage.reduce)
            for index, own in zip(stage.indices, axes[part.buffer], strict=True):
                for var in variables_of(index):
                    known[var] |= own
            for load in loads(part.value):
                found = axes.setdefault(load.source, [set() for _ in load.indices])
                for number, index in enumerate(load.indices):
                    found[number] |= set().union(*(known.get(var, set()) for var in variables_of(index)))
    param = axes.get(read.params[place])
    return param is not None and bool(param[_CHANNELS]) and not param[_CHANNELS] & {_CHANNELS, _SUMMED}


def _by_variable(axes: tuple[Var, ...], reduce: tuple[bool, ...]) -> dict[Var, set[int]]:
    return {axis: {_SUMMED} if summed else set() for axis, summed in zip(axes, reduce, strict=True)}


# Outputs of a network that are faster to compute plain, although they are computed from packed values.

# Measured with AVX-512, unpacking included: a plain image of 64 times as many numbers took 0.4 to 0.55 of the
# time, of 16 times 0.5 to 1.06, of 4 times 1.05 to 1.6.
_GROWTH = 16


def grown_outputs(
    steps: Sequence[tuple[relax.Var, relax.Expr]], packed: set[relax.Var], output: relax.Expr
) -> set[relax.Var]:
    """Return the packed outputs that no step reads and that are far larger than the values they come from.

    Otherwise the network would write them packed, only to read them again and unpack them.
    """
    read = {var for _var, value in steps for var in variables(value)}
    outputs = set(variables(output)) & packed - read
    return {
        var
        for var, value in steps
        if var in outputs and _GROWTH * sum(map(_size, packed & set(variables(value)))) <= _size(var)
    }


def _size(value: relax.Var) -> int:
    return prod(int(extent) for extent in value.ty.shape)


def plans(fused: tvm.IRModule, choices: Choices) -> dict[str, Plan]:
    """Plan the network in each of its shapes; return the plans by the name of the shape's function."""
    functions, names = Functions(fused, choices.machine), entries(fused)
    agreement = Agreement(choices) if len(names) > 1 else None
    return {name: _plan(functions, fused[name], choices, agreement, largest=name == MAIN) for name in names}


def plan(fused: tvm.IRModule, choices: Choices) -> Plan:
    """Plan every call of the network's function `main`."""
    return _plan(Functions(fused, choices.machine), fused[MAIN], choices, None, largest=True)


def _plan(
    functions: Functions,
    main: relax.Function,
    choices: Choices,
    agreement: Agreement | None,
    *,
    largest: bool,
) -> Plan:
    result = Plan(choices.machine)
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    outputs = _outputs(functions, bindings, main.body.body)

    def agreed(step: Generated, name: str | None) -> Generated:
        return step if agreement is None else _agreed(step, name, choices, agreement, largest=largest)

    for binding in bindings:
        if binding.var in outputs:
            steps: list[PlanStep] = list(outputs[binding.var])
        else:
            steps = _steps(functions, binding, choices, agreed)
        for step in steps:
            if isinstance(step, Generated):
                step = _place(step, result)
            result.steps.append(step)
    if choices.machine.gpu is None:
        general = {
            step.var for step in result.steps if isinstance(step, Generated) and step.choice == GENERAL
        }
        values = [(step.var, step.value) for step in result.steps]
        result.packed -= general & grown_outputs(values, result.packed, main.body.body)
    _concatenate(result, main.body.body)
    return result


def _agreed(
    step: Generated, name: str | None, choices: Choices, agreement: Agreement, *, largest: bool
) -> Generated:
    """Return a step of one of several shapes with a choice that reads its weight as the largest shape does.

    A choice that was decided by a record stays, unless it is the default.
    """
    weight = getattr(step.contraction, "weight", None)
    if step.contraction is None or weight is None or not isinstance(step.argument(weight), GenericConst):
        return step
    value = step.argument(weight).value.numpy()
    if largest:
        agreement.store(step.contraction, value, step.choice)
        return step
    if choices.improves(name, step.choice, step.contraction):
        return step
    return replace(step, choice=agreement.agreed(step.contraction, value, step.choice))


def _outputs(
    functions: Functions, bindings: list[relax.Binding], result: relax.Expr
) -> dict[relax.Var, list[Generated]]:
    """Split functions with several outputs into one for each used output.

    Returns
    -------
    dict
        Step that computes an output, by the output's binding; no step for the binding of the function's call.
    """
    items = [each for each in bindings if isinstance(each.value, relax.TupleGetItem)]
    others = [each.value for each in bindings if not isinstance(each.value, relax.TupleGetItem)]
    whole = {var for value in (*others, result) for var in variables(value)}
    found: dict[relax.Var, list[Generated]] = {}
    for binding in bindings:
        var, value = binding.var, binding.value
        name = called(value)
        if name is None or not isinstance(value.ty, relax.TupleType) or var in whole:
            continue
        function = functions[name]
        if function is None:
            continue
        outputs = function.whole.params[-len(value.ty.fields) :]
        cut = [until(function.whole, output) for output in outputs]
        if not all(map(functions.try_general, cut)):
            continue
        found[var] = []
        used = [item for item in items if item.value.tuple_value.same_as(var)]
        for number, item in enumerate(used):
            place = item.value.index
            arguments = [
                argument
                for param, argument in zip(function.whole.params, value.args[1].fields, strict=False)
                if any(param.same_as(own) for own in cut[place].params)
            ]
            call = relax.call_tir(value.args[0], arguments, value.ty.fields[place])
            own = f"{name}_output{place}" if number else name  # the first keeps the task's name
            found[item.var] = [Generated(item.var, call, own, cut[place])]
    return found


def _concatenate(result: Plan, output: relax.Expr) -> None:
    """Find operands of concatenations that can be computed in place: only the concatenation reads them."""
    uses: Counter[relax.Var] = Counter()
    for value in (*(step.value for step in result.steps), output):
        uses.update(variables(value))
    made = {step.var for step in result.steps if isinstance(step, Generated)}
    for step in result.steps:
        if not isinstance(step, Generated) or step.subject is not None or step.var not in result.packed:
            continue
        values = [(step.arguments[place], block) for place, block in operands(step.read, result.lanes) or []]
        if not values or not all(packable(value, result.machine) for value, _block in values):
            continue
        placed = {
            value: (step.var, block)
            for value, block in values
            if uses[value] == 1 and value in made & result.packed and value not in result.concatenations
        }
        if placed:
            result.concatenations[step.var] = values
            result.places.update(placed)


def _steps(
    functions: Functions,
    binding: relax.Binding,
    choices: Choices,
    agreed: Callable[[Generated, str | None], Generated],
) -> list[PlanStep]:
    """Return the steps of a binding: one, or one for each part of its function.

    Parameters
    ----------
    agreed
        Returns a step with the choice on which the shapes of the network agree.
    """
    var, value = binding.var, binding.value
    name = called(value)
    if name is None:
        return [PlanStep(var, value)]
    recurrence = recurrence_of(functions.fused[name])
    if recurrence is not None:
        return [Recurrent(var, value, name, recurrence)]
    function = functions[name]
    if function is None or not isinstance(value.ty, relax.TensorType):
        return [Call(var, value, name)]
    if len(function.parts) == 1:
        step = Generated(var, value, name, function.whole)
        return [agreed(_computed(step, function.parts[0][1], name, choices), name)]
    steps: list[PlanStep] = []
    values = list(zip(function.whole.params, value.args[1].fields, strict=False))
    first = next(
        number for number, (_part, contraction) in enumerate(function.parts) if contraction is not None
    )
    for number, (part, contraction) in enumerate(function.parts):
        arguments = [expr for param in part.params[:-1] for own, expr in values if own.same_as(param)]
        ty = relax.TensorType(shape_of(part.output), str(part.output.dtype))
        target = var if number == len(function.parts) - 1 else relax.Var(f"{name}_value{number}", ty)
        values.append((part.output, target))
        call = relax.call_tir(value.args[0], arguments, ty)
        # A record is for one contraction, the first, which keeps the function's name.
        own = name if number == first else None
        step = Generated(target, call, own or f"{name}_part{number}", part)
        steps.append(agreed(_computed(step, contraction, own, choices), own))
    return steps


def _computed(
    step: Generated, contraction: Contraction | None, name: str | None, choices: Choices
) -> Generated:
    """Return a step with the choice for its contraction."""
    weight = None if contraction is None else contraction.weight
    if contraction is not None and weight is not None and not isinstance(step.argument(weight), GenericConst):
        contraction = contraction.with_variable_weight()
    if contraction is None or not _multiplies(step, contraction, choices.machine):
        return step
    return replace(step, choice=choices.of(name, contraction), contraction=contraction)


def _multiplies(step: Generated, contraction: Contraction, machine: Machine) -> bool:
    """Return whether the machine multiplies such factors, and the operands are where that is possible."""
    weight, products = contraction.weight, machine.products_of(contraction.dtype)
    known = weight is None or str(weight.dtype) == products.weights
    if not known or (str(contraction.y.dtype) == "int32" and products.sums != "int32"):
        return False
    if products.least is not None and not _at_least(step, weight, products.least):
        return False
    if not contraction.in_blocks:
        return products.depth == 1 or step.read.place(contraction.x) is not None
    row = any(each.inputs == contraction.dtype for each in machine.products)
    return row and packable(step.var, machine) and images(step.argument(contraction.x), machine)


def _reserve_halo(source: relax.Expr, contraction: Contraction | None, result: Plan) -> bool:
    """Reserve a halo for the number that a convolution pads its image with; return whether it is free."""
    if not isinstance(contraction, Convolution) or not any(contraction.pads):
        return True
    return result.fills.setdefault(source, contraction.outside) == contraction.outside


def _at_least(step: Generated, weight: tirx.Buffer | None, least: int) -> bool:
    """Return whether a weight is known and has no smaller number."""
    value = None if weight is None else step.argument(weight)
    return isinstance(value, GenericConst) and int(value.value.numpy().min()) >= least


def _place(step: Generated, result: Plan) -> Generated:
    """Decide whether the step's value is packed, and which halo its input needs; return the step.

    An input that another step reads with another number around it is left to the general algorithm.
    """
    algorithm = step.algorithm
    operand = algorithm.source(step.subject)
    if operand is not None:
        source = step.argument(operand)
        need = algorithm.halo(step.subject, step.choice, result.machine)
        if any(need) and not _reserve_halo(source, step.subject, result):
            return _place(replace(step, choice=GENERAL, contraction=None), result)
        result.packed.add(step.var)
        have = result.halos.get(source, (0,) * len(need))
        result.halos[source] = tuple(map(max, have, need))
        depth = result.machine.products_of(str(operand.dtype)).depth
        if algorithm.full_blocks:
            result.blocked.add(source)
        elif depth > 1:
            result.few[source] = -(-extents(source)[1] // depth) * depth
        for operand in step.arguments:  # values added to the output are read in its layout
            if packable(operand, result.machine) and extents(operand)[1] == extents(step.var)[1]:
                result.blocked.add(operand)
    elif algorithm.values == "either" and packable(step.var, result.machine):
        shape = extents(step.var)
        for place, source in enumerate(step.arguments):
            if isinstance(source, relax.Var) and source in result.packed:
                theirs = extents(source)
                blocks = shape[1] >= result.lanes or theirs[1] == shape[1]
                if len(theirs) == len(shape) and blocks and not moves_channels(step.read, place):
                    result.packed.add(step.var)
    return step
