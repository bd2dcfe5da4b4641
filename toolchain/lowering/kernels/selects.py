"""Choices between vectors of float16, in OpenCL C."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from toolchain import tvm_compat


def with_half_selects(module: tvm.IRModule) -> tvm.IRModule:
    """Return kernels (a new module) whose choices between vectors of float16 compile.

    `select` takes a condition as wide as its values. TVM makes one of 32 bits whatever they are; what a
    comparison of float16 gives has 16 already.
    """
    functions = {
        name: function.with_body(tvm_compat.mutated(function.body, [(tirx.Select, _selected)]))
        for name, function in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def _selected(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
    parts = [mutator.mutate(part) for part in (node.condition, node.true_value, node.false_value)]
    condition, chosen, other = parts
    dtype = str(node.true_value.ty.dtype)
    if not dtype.startswith("float16x"):
        return tirx.Select(condition, chosen, other)
    return tirx.call_pure_extern(dtype, "select", other, chosen, condition)
