"""Many models as one module, so that they are lowered, compiled and linked once."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from toolchain.models.load import Model


def merged(models: Sequence[Model]) -> tvm.ir.IRModule:
    """Return a module whose `main` takes the inputs of all and returns a tuple of all outputs, in order."""
    builder = relax.BlockBuilder()
    parameters: list[list[relax.Var]] = [
        [relax.Var(f"m{number}_{place}", param.ty) for place, param in enumerate(model.module["main"].params)]
        for number, model in enumerate(models)
    ]
    with builder.function("main", [each for group in parameters for each in group]):
        with builder.dataflow():
            outputs = []
            for model, own in zip(models, parameters, strict=True):
                outputs += _copied(builder, model.module, own)
            result = builder.emit_output(relax.Tuple(outputs))
        builder.emit_func_output(result)
    return builder.finalize()


def _copied(
    builder: relax.BlockBuilder, module: tvm.ir.IRModule, parameters: list[relax.Var]
) -> list[relax.Expr]:
    """Emit what a module's `main` does; return its outputs."""
    renaming = _Renaming()
    for variable, function in module.functions.items():
        if variable.name_hint != "main":
            renaming.globals[variable] = builder.add_func(function, variable.name_hint)
    main = module["main"]
    renaming.values = dict(zip(main.params, parameters, strict=True))
    for block in main.body.blocks:
        for binding in block.bindings:
            renaming.values[binding.var] = builder.emit(renaming.visit_expr(binding.value))
    result = renaming.visit_expr(main.body.body)
    if not isinstance(result.ty, relax.TupleType):
        return [result]
    if isinstance(result, relax.Tuple):
        return list(result.fields)
    return [builder.emit(relax.TupleGetItem(result, place)) for place in range(len(result.ty.fields))]


@mutator
class _Renaming(PyExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[relax.Var, relax.Expr] = {}
        self.globals: dict[relax.GlobalVar, relax.GlobalVar] = {}

    def visit_var_(self, op: relax.Var) -> relax.Expr:
        return self.values.get(op, op)

    def visit_dataflow_var_(self, op: relax.DataflowVar) -> relax.Expr:
        return self.values.get(op, op)

    def visit_global_var_(self, op: relax.GlobalVar) -> relax.Expr:
        return self.globals.get(op, op)
