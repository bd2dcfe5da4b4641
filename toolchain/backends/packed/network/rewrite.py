"""Rebuilds a fused network with generated functions on packed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax, tirx
from tvm.ir.expr import GenericConst

from toolchain.arrays import Array
from toolchain.backends.packed.dot_products import multiply_add
from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.made import Made, MadeFunctions, Render, generated
from toolchain.backends.packed.network.plan import plans
from toolchain.backends.packed.network.recipe import Computed, Moved, Recurring
from toolchain.backends.packed.network.repeated import share_repeated
from toolchain.backends.packed.network.steps import (
    Call,
    Generated,
    Plan,
    PlanStep,
    Recurrent,
    extents,
    packable,
)
from toolchain.backends.packed.recognise.contraction import recognise
from toolchain.backends.packed.recognise.read import Read
from toolchain.backends.packed.stages.recurrent import pack_weight
from toolchain.lowering.kernels.pickling import pickled
from toolchain.lowering.kernels.recipe import Recipe, Scheduled
from toolchain.tasks.candidate import Parameter

# Names what the code of a function multiplies by.


def products_of(step: Call, machine: Machine) -> str:
    """Return the name of the `Products` by which the function of a call multiplies.

    A function without a contraction has those of the network's type, a recurrence those of float32. The
    general algorithm multiplies and adds in vectors of any type, and uses no instruction for bytes.
    """
    if isinstance(step, Recurrent):
        return multiply_add("float32").name
    if not isinstance(step, Generated):
        return multiply_add(machine.dtype).name
    contraction = step.contraction or recognise(step.read)
    dtype = machine.dtype if contraction is None else contraction.dtype
    return (multiply_add(dtype) if step.subject is None else machine.products_of(dtype)).name


ROWS = "rows"  # rule of functions that keep their default schedule
DLIGHT = "dlight"  # the same rule on a device
RECURRENT = "recurrent"
IN_PLACE = "in place"  # rule of concatenations whose operands are computed in place


@dataclass(frozen=True)
class Rewritten:
    """The rebuilt network; for each fused function the rule that applied, and its recipe.

    Attributes
    ----------
    made
        Recipes by function; the last one if calls of a function differ in their layouts.
    named
        Name of the fused function that a function of the new network computes, by the new name.
    products
        For each fused function the name of the `Products` by which it multiplies.
    transformed
        Bytes that weights have grown by through winograd's transform.
    """

    module: tvm.IRModule
    rules: dict[str, str]
    products: dict[str, str]
    made: dict[str, Made]
    named: dict[str, str]
    transformed: int


def rewrite(fused: tvm.IRModule, choices: Choices, render: Render = generated) -> Rewritten:
    """Return the network in packed layouts; a function that no rule covers keeps its default schedule.

    Parameters
    ----------
    render
        Returns what the network contains for a recipe.
    """
    planned = plans(fused, choices)
    if not choices.machine.pieces.fine:
        for plan in planned.values():
            share_repeated(plan)
    builder = relax.BlockBuilder()
    functions = MadeFunctions(builder, render, several=len(planned) > 1)
    network = _Network(fused, choices, functions)
    for name, plan in planned.items():
        _Body(network, plan, fused[name]).emit(name)
    return Rewritten(
        builder.finalize(),
        network.rules,
        network.products,
        functions.made,
        functions.named,
        functions.transformed,
    )


@dataclass(frozen=True)
class _Operand:
    """An argument of a generated function: its layout, its value, and how a weight was packed."""

    layout: Layout | None
    value: relax.Expr
    pack: Callable[[Array], Array] | None = None


class _Network:
    """What the bodies of all shapes are built from, and what becomes known of their functions."""

    def __init__(self, fused: tvm.IRModule, choices: Choices, functions: MadeFunctions) -> None:
        self.fused, self.machine, self.unread = fused, choices.machine, choices.unread
        self.functions = functions
        self.rules: dict[str, str] = {}
        self.products: dict[str, str] = {}
        self._texts: dict[int, bytes] = {}

    def text(self, read: Read) -> bytes:
        """Return a text of what a function computes, made once; the plans keep `read`, and so its id."""
        if id(read) not in self._texts:
            self._texts[id(read)] = pickled(read)
        return self._texts[id(read)]


class _Body:
    """Rebuilds the network for one shape.

    Attributes
    ----------
    plain, packed
        Values of the new network in either layout, by the variable of the fused one.
    placed
        Operands that were computed in their concatenation.
    """

    def __init__(self, network: _Network, plan: Plan, main: relax.Function) -> None:
        self.network, self.plan, self.main = network, plan, main
        self.functions, self.machine = network.functions, network.machine
        self.builder = network.functions.builder
        self.plain: dict[relax.Var, relax.Expr] = {param: param for param in main.params}
        self.packed: dict[relax.Var, relax.Expr] = {}
        self.placed: set[relax.Var] = set()

    def emit(self, name: str) -> None:
        """Add the function to the builder's module."""
        with self.builder.function(name, list(self.main.params)):
            with self.builder.dataflow():
                for step in self.plan.steps:
                    self._step(step)
                result = self.builder.emit_output(self._plain_expr(self.main.body.body))
            self.builder.emit_func_output(result)

    def _step(self, step: PlanStep) -> None:
        if isinstance(step, Call):
            self.network.products[step.function] = products_of(step, self.machine)
        if isinstance(step, Generated):
            self._generated(step)
        elif isinstance(step, Recurrent):
            self._recurrent(step)
        elif isinstance(step, Call):
            self._rows(step)
        else:
            self.plain[step.var] = self.builder.emit(self._plain_expr(step.value))

    def _rows(self, step: Call) -> None:
        self.network.rules[step.function] = DLIGHT if self.machine.pieces.fine else ROWS

        def keep() -> tirx.PrimFunc:
            func = self.network.unread(self.network.fused[step.function]).without_attr("global_symbol")
            plain = [_Operand(None, argument) for argument in step.arguments]
            self.functions.made[step.function] = Made(Scheduled(func), _parameters(step, plain))
            return func

        self._as_it_is(step, self.functions.fused(step.function, keep), step.arguments)

    def _as_it_is(self, step: Call, function: tvm.ir.GlobalVar, arguments: Sequence[relax.Expr]) -> None:
        """Emit a call of a function on plain values."""
        ty = step.value.ty
        outputs = list(ty.fields) if isinstance(ty, relax.TupleType) else ty
        call = relax.call_tir(function, [self._plain_expr(argument) for argument in arguments], outputs)
        self.plain[step.var] = self.builder.emit(call)

    def _recurrent(self, step: Recurrent) -> None:
        of, arguments = step.recurrence, list(step.arguments)
        place = list(of.parameters).index("r")
        constant = isinstance(arguments[place], GenericConst)
        if constant:
            arguments[place] = self.functions.constant(
                pack_weight(arguments[place].value.numpy(), of, self.machine)
            )

        def recipe() -> Recipe:
            recurring = Recurring(of, self.machine, constant, len(arguments) + _outputs(step))
            plain = [_Operand(None, argument) for argument in arguments]
            self.functions.made[step.function] = Made(recurring, _parameters(step, plain))
            return recurring

        function = self.functions.generated((step.function, constant), step.function, recipe)
        self._as_it_is(step, function, arguments)
        self.network.rules[step.function] = RECURRENT

    def _generated(self, step: Generated) -> None:
        if step.var in self.plan.concatenations:
            self._concatenated(step)
            return
        operands = [
            self._operand(step, param, argument)
            for param, argument in zip(step.read.params, step.arguments, strict=False)
        ]
        packed = step.var in self.plan.packed
        out = self.plan.layout(step.var) if packed else None
        layouts = (*(operand.layout for operand in operands), out)

        def recipe() -> Recipe:
            computed = Computed(step.read, layouts, self.machine, step.choice, step.subject)
            self.functions.made[step.function] = Made(computed, _parameters(step, operands, out))
            return computed

        # What a call computes may differ by the outputs that are used, by how many slices are alike in its
        # shape, and by whether its weight is constant.
        known = getattr(step.subject, "weight", None) is not None
        key = (step.function, self.network.text(step.read), layouts, step.choice, known)
        function = self.functions.generated(key, step.function, recipe)
        shape = extents(step.var) if out is None else out.shape(extents(step.var))
        arguments = [operand.value for operand in operands]
        if packed and step.var in self.plan.places:
            self._into(self.plan.places[step.var][0], function, arguments)
            self.placed.add(step.var)
        else:
            result = self._call(function, arguments, shape, str(step.var.ty.dtype))
            (self.packed if packed else self.plain)[step.var] = result
        self.network.rules[step.function] = step.choice.algorithm

    def _into(self, whole: relax.Var, function: tvm.ir.GlobalVar, arguments: list[relax.Expr]) -> None:
        """Emit a call that writes a part of a concatenation; the first call allocates the buffer."""
        shape = self.plan.layout(whole).shape(extents(whole))
        if whole in self.packed:
            inside = [*arguments, self.packed[whole]]
            ty = relax.TensorType(shape, str(whole.ty.dtype))
            call = relax.op.call_tir_inplace(function, inside, [len(arguments)], ty)
            self.packed[whole] = self.builder.emit(call)
        else:
            self.packed[whole] = self._call(function, arguments, shape, str(whole.ty.dtype))

    def _concatenated(self, step: Generated) -> None:
        """Emit copies of the operands that were not computed in place."""
        for value, block in self.plan.concatenations[step.var]:
            if self.plan.places.get(value, (None, 0)) == (step.var, block) and value in self.placed:
                continue
            source = self.plan.layout(value) if value in self.packed else None
            target = self.plan.part(step.var, block)
            operand = self.packed[value] if source is not None else self._plain(value)
            self._into(step.var, self._mover("copy", value, source, target), [operand])
        self.network.rules[step.function] = IN_PLACE

    def _operand(self, step: Generated, param: tirx.Buffer, argument: relax.Expr) -> _Operand:
        if isinstance(argument, GenericConst):
            return self._constant(step, param, argument.value.numpy())
        algorithm = step.algorithm
        packs = argument in self.packed if algorithm.values == "either" else algorithm.values == "packed"
        source = algorithm.source(step.subject)
        if packs and (packable(argument, self.machine) or (source is not None and param.same_as(source))):
            return _Operand(self.plan.layout(argument), self._packed(argument))
        return _Operand(None, self._plain_expr(argument))

    def _constant(self, step: Generated, param: tirx.Buffer, value: Array) -> _Operand:
        subject, algorithm = step.subject, step.algorithm
        if subject is not None and subject.weight is not None and param.same_as(subject.weight):
            source = algorithm.source(subject)
            lanes = 1 if source is None else self.plan.layout(step.argument(source)).lanes

            def pack(weight: Array) -> Array:
                return algorithm.weight(weight, subject, step.choice, self.machine, lanes)

            packed = pack(value)
            growth = 0 if algorithm.exact else max(0, packed.nbytes - value.nbytes)
            return _Operand(None, self.functions.constant(packed, growth), pack)
        layout = algorithm.constant(param, subject, self.machine)
        return _Operand(layout, self.functions.constant(value if layout is None else layout.pack(value)))

    def _packed(self, value: relax.Var) -> relax.Expr:
        if value not in self.packed:
            layout = self.plan.layout(value)
            function, source = self._mover("pack", value, None, layout), self._plain(value)
            shape = layout.shape(extents(value))
            self.packed[value] = self._call(function, [source], shape, str(value.ty.dtype))
        return self.packed[value]

    def _plain(self, value: relax.Var) -> relax.Expr:
        if value not in self.plain:
            function = self._mover("unpack", value, self.plan.layout(value), None)
            source = self.packed[value]
            self.plain[value] = self._call(function, [source], extents(value), str(value.ty.dtype))
        return self.plain[value]

    def _plain_expr(self, value: relax.Expr) -> relax.Expr:
        """Return a Relax expression with plain values."""
        if isinstance(value, relax.Var):
            return self._plain(value)
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._plain_expr(each) for each in value.fields])
        if isinstance(value, relax.TupleGetItem):
            return relax.TupleGetItem(self._plain_expr(value.tuple_value), value.index)
        if isinstance(value, relax.Call):
            return relax.Call(
                value.op, [self._plain_expr(each) for each in value.args], value.attrs, value.ty_args
            )
        return value

    def _mover(
        self, name: str, value: relax.Var, source: Layout | None, target: Layout | None
    ) -> tvm.ir.GlobalVar:
        """Return the function that copies a value from one layout to another."""
        moved = Moved(extents(value), str(value.ty.dtype), source, target, self.machine)
        return self.functions.generated((name, moved), name, lambda: moved)

    def _call(
        self, function: tvm.ir.GlobalVar, arguments: list[relax.Expr], shape: tuple[int, ...], dtype: str
    ) -> relax.Expr:
        return self.builder.emit(relax.call_tir(function, arguments, relax.TensorType(shape, dtype)))


def _outputs(step: Call) -> int:
    return len(step.var.ty.fields) if isinstance(step.var.ty, relax.TupleType) else 1


def _parameters(step: Call, operands: Sequence[_Operand], out: Layout | None = None) -> tuple[Parameter, ...]:
    found = []
    for argument, operand in zip(step.arguments, operands, strict=True):
        if isinstance(operand.value, GenericConst):
            array = operand.value.value.numpy()
            found.append(Parameter(array.shape, str(array.dtype), value=array, pack=operand.pack))
        else:
            found.append(Parameter(extents(argument), str(argument.ty.dtype), operand.layout))
    outputs = step.var.ty.fields if isinstance(step.var.ty, relax.TupleType) else [step.var.ty]
    found += [Parameter(tuple(map(int, ty.shape)), str(ty.dtype), out) for ty in outputs]
    return tuple(found)
