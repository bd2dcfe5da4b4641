"""Rewrites conversions between booleans and numbers in kernels, and selections by them."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from toolchain import tvm_compat
from toolchain.lowering.dialects.bytes import as_number, as_truth

_NARROW = ("int8", "uint8", "int16", "uint16")


def with_ones(module: tvm.IRModule) -> tvm.IRModule:
    """Return a new module of kernels in which true becomes 1 when converted to a number.

    In OpenCL C a true comparison of vectors is -1 (OpenCL C 1.2, 6.3.d), which TVM converts unchanged.
    A number converted to a boolean stays a number in TVM's source, and `select` looks only at the highest bit
    of each lane. Numbers narrower than `int` are selected as ints: C promotes them when it computes, and then
    no `select` fits both operands.
    """
    functions = {
        name: func.with_body(tvm_compat.mutated(func.body, [(tirx.Cast, _number), (tirx.Select, _chosen)]))
        for name, func in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def _number(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
    value = mutator.mutate(node.value)
    kind = str(node.ty.dtype)
    truth, wanted = (each.startswith("bool") for each in (str(node.value.ty.dtype), kind))
    if truth == wanted:
        return tirx.Cast(kind, value)
    return as_truth(value) if wanted else as_number(value, kind)


def _chosen(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
    made = mutator.default_mutate(node)
    kind = str(made.ty.dtype)
    if kind not in _NARROW:
        return made
    yes, no = (tirx.Cast("int32", each) for each in (made.true_value, made.false_value))
    return tirx.Cast(kind, tirx.Select(made.condition, yes, no))
