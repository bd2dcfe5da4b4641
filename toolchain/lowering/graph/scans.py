"""Rewrites running sums along the last axis to a form that a device can compute."""

from __future__ import annotations

import math

import tvm
from tvm import relax


def with_scans_moved(module: tvm.IRModule) -> tvm.IRModule:
    """Return a new module in which running sums along the last axis run along the one before it.

    For the last axis of a tensor on a device, TVM uses a function whose workspace has no static size, so its
    memory cannot be planned. For other axes it uses one with a static size. No data is moved: the tensor is
    reshaped to have another axis of extent 1 at the end.
    """
    made = module.clone()
    for variable, func in module.functions_items():
        if isinstance(func, relax.Function):
            made.update_func(variable, _Scans(made).visit_expr(func))
    return made


@relax.expr_functor.mutator
class _Scans(relax.PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        made = super().visit_call_(call)
        if not isinstance(made.op, tvm.ir.Op) or made.op.name != "relax.cumsum":
            return made
        shape = [int(extent) for extent in call.ty.shape]
        if made.attrs.axis is None or int(made.attrs.axis) not in (-1, len(shape) - 1):
            return made
        seen = relax.op.reshape(made.args[0], (math.prod(shape[:-1]), shape[-1], 1))
        summed = relax.op.cumsum(seen, axis=1, dtype=made.attrs.dtype, exclusive=made.attrs.exclusive)
        return relax.op.reshape(summed, shape)
