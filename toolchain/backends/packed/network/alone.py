"""One function of a network on its own, which a tuner measures."""

from __future__ import annotations

import tvm
from tvm import relax, tirx

from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.made import Made
from toolchain.backends.packed.network.plan import plan
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.backends.packed.network.steps import Generated
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.lowering.functions.tasks import FusedTask
from toolchain.lowering.kernels.recipe import Recipe


def alone(task: FusedTask, choices: Choices) -> Made:
    """Return the recipe and parameters of a task's function, with the constants of one of its calls.

    No code is generated yet.
    """
    return rewrite(_network(task), choices, _stand_in).made[task.name]


def _stand_in(recipe: Recipe) -> tirx.PrimFunc:
    """Return an empty function: only the function's recipe is needed, not the network."""
    return tirx.PrimFunc([tirx.Var("_", "handle") for _ in range(recipe.arity)], tirx.Evaluate(0))


def contraction(task: FusedTask, choices: Choices) -> Contraction | None:
    """Return the contraction of a task; None if the task has no contraction with code variants."""
    step = generated(task, choices)
    return None if step is None else step.contraction


def generated(task: FusedTask, choices: Choices) -> Generated | None:
    """Return the step that a task's candidates compute; None if no algorithm generates it."""
    for step in plan(_network(task), choices).steps:
        if isinstance(step, Generated) and step.function == task.name:
            return step
    return None


def _network(task: FusedTask) -> tvm.IRModule:
    """Return a network with one call of the task's function, whose inputs are the network's."""
    builder = relax.BlockBuilder()
    inputs: dict[relax.Var, relax.Var] = {}
    arguments = []
    call = task.call
    for argument in call.args[1].fields:
        if isinstance(argument, relax.Var):
            argument = inputs.setdefault(argument, relax.Var(f"input{len(inputs)}", argument.ty))
        arguments.append(argument)
    with builder.function("main", list(inputs.values())):
        with builder.dataflow():
            function = builder.add_func(task.func.without_attr("global_symbol"), task.name)
            outputs = list(call.ty.fields) if isinstance(call.ty, relax.TupleType) else call.ty
            result = builder.emit_output(relax.call_tir(function, arguments, outputs))
        builder.emit_func_output(result)
    return builder.finalize()
