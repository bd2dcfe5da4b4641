"""Comparisons as numbers, in kernels."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from toolchain import tvm_compat


def with_ones(module: tvm.IRModule) -> tvm.IRModule:
    """Return kernels (a new module) in which what holds becomes 1 where a number is made of it.

    In OpenCL C a comparison of vectors is -1 where it holds (OpenCL C 1.2, 6.3.d), and TVM converts that.
    """
    functions = {
        name: func.with_body(tvm_compat.mutated(func.body, [(tirx.Cast, _chosen)]))
        for name, func in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def _chosen(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
    value = mutator.mutate(node.value)
    kind, lanes = str(node.ty.dtype), node.value.ty.dtype.lanes
    if not str(node.value.ty.dtype).startswith("bool") or kind.startswith("bool"):
        return tirx.Cast(kind, value)
    one, zero = (tirx.const(number, kind.split("x")[0]) for number in (1, 0))
    if lanes > 1:
        one, zero = tirx.Broadcast(one, lanes), tirx.Broadcast(zero, lanes)
    return tirx.Select(value, one, zero)
