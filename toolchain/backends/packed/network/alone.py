"""One function of a network by itself, as generated code computes it: what a tuner measures."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relax, tirx

from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network.plan import Choose
from toolchain.backends.packed.network.rewrite import Made, rewrite


def alone(
    func: tirx.PrimFunc,
    call: relax.Call,
    machine: Machine,
    choose: Choose,
    fallback: Callable[[str], tirx.PrimFunc],
) -> Made:
    """Return what becomes of one fused function.

    Parameters
    ----------
    call
        One of the network's calls of it: its constants count.
    """
    name = call.args[0].name_hint
    return rewrite(_network(func, call, name), machine, choose, fallback).made[name]


def _network(func: tirx.PrimFunc, call: relax.Call, name: str) -> tvm.IRModule:
    """Return the network of this one call, its inputs the call's."""
    builder = relax.BlockBuilder()
    inputs: dict[relax.Var, relax.Var] = {}
    arguments = []
    for argument in call.args[1].fields:
        if isinstance(argument, relax.Var):
            argument = inputs.setdefault(argument, relax.Var(f"input{len(inputs)}", argument.ty))
        arguments.append(argument)
    with builder.function("main", list(inputs.values())):
        with builder.dataflow():
            function = builder.add_func(func.without_attr("global_symbol"), name)
            outputs = list(call.ty.fields) if isinstance(call.ty, relax.TupleType) else call.ty
            result = builder.emit_output(relax.call_tir(function, arguments, outputs))
        builder.emit_func_output(result)
    return builder.finalize()
