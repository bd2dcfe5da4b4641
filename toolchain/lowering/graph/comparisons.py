"""Makes maxima and minima with constants propagate NaN, as in onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad

from toolchain import tvm_compat
from toolchain.architectures.table import architecture_of

_INTRINSICS: dict[type, str] = {tirx.Max: "llvm.maximum", tirx.Min: "llvm.minimum"}


def with_bounds_kept(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Return a new module in which a maximum or minimum of a value and a constant propagates NaN.

    TVM compiles max(a, b) to `a > b ? a : b`: a NaN in `a` becomes `b`, a NaN in `b` is kept. So max(x, 0)
    would turn NaN into 0. max(0, x) keeps NaN on every CPU, and is one instruction on x86. Where LLVM's
    `maximum` is one instruction (`Architecture.nan_bounds`), a comparison would be two. In OpenCL C, `max` of
    NaN is undefined, so a comparison is used, which keeps NaN.
    """
    if target.kind.name == "llvm":
        row = architecture_of(str(target.attrs.get("mtriple", "")))
        bound = _at_once if row and row.nan_bounds else _second
    else:
        bound = _compared
    functions = {
        name: function.with_body(
            tvm_compat.mutated(function.body, [(kind, _bounding(kind, bound)) for kind in _INTRINSICS])
        )
        if isinstance(function, tirx.PrimFunc)
        else function
        for name, function in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


_Bound = Callable[[type, Any, Any], Any]
"""Makes an expression that propagates NaN, from a kind of bound, a value and a constant."""


def _bounding(kind: type, bound: _Bound) -> Callable[[Any, tvm_ffi.StructuralMutator], Any]:
    def bounded(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
        a, b = mutator.mutate(node.a), mutator.mutate(node.b)
        if _constant(a):
            a, b = b, a
        if not _constant(b) or _constant(a):
            return kind(a, b)
        return bound(kind, a, b)

    return bounded


def _at_once(kind: type, value: Any, constant: Any) -> Any:
    return tirx.call_llvm_pure_intrin(str(value.ty.dtype), _INTRINSICS[kind], value, constant)


def _second(kind: type, value: Any, constant: Any) -> Any:
    return kind(constant, value)


def _compared(kind: type, value: Any, constant: Any) -> Any:
    def chosen(number: Any) -> Any:
        beyond = number < constant if kind is tirx.Max else number > constant
        return tirx.Select(beyond, constant, number)

    if not _names(value):
        return chosen(value)
    # The value contains names, and a function must not define a name twice.
    name = tirx.Var("bounded", str(value.ty))
    return tirx.Let(name, value, chosen(name))


def _names(value: Any) -> bool:
    """Whether a value contains `Let` expressions."""
    found: list[Any] = []
    tvm_ffi.structural_walk(value, [(tirx.Let, found.append)])
    return bool(found)


def _constant(value: Any) -> bool:
    """Whether a value is a number, or a scalar tensor (ONNX's way to give a bound)."""
    floating = str(value.ty.dtype).startswith("float")
    return isinstance(value, tirx.FloatImm) or (
        floating and isinstance(value, TensorLoad) and not list(value.indices)
    )
