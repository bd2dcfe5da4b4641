"""Writes floating-point constants of kernels as literals that compilers read back exactly.

TVM writes them with seven digits in OpenCL C, and doubles with 15 decimal places in CUDA C: 12582912 becomes
12582910, and 1e-20 becomes 0. So each constant becomes a call, named after its bits, before TVM generates the
source, and each such call is replaced by a literal in the source that drivers get. A float with nine digits,
and a double with 17, is read back exactly even by a compiler that does not round to the nearest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx

from toolchain import tvm_compat

_UNSIGNED = {"float16": "uint16", "float32": "uint32", "float64": "uint64"}
_DIGITS = {"float16": 9, "float32": 9, "float64": 17}
_CALL = re.compile(r"\bconstant_(float\d+)_([0-9a-f]+)\(\)")

Forms = Mapping[str, tuple[str, str, str]]
"""Type -> its spelling in a dialect of a finite number, of infinity and of NaN."""

OPENCL_FORMS: Forms = {
    "float16": ("(half){}f", "(half)INFINITY", "(half)NAN"),
    "float32": ("{}f", "INFINITY", "NAN"),
    "float64": ("{}", "(double)INFINITY", "(double)NAN"),
}
CUDA_FORMS: Forms = {
    "float16": ("__float2half_rn({}f)", "__ushort_as_half(0x7c00)", "__ushort_as_half(0x7e00)"),
    "float32": ("{}f", "__int_as_float(0x7f800000)", "__int_as_float(0x7fc00000)"),
    "float64": (
        "{}",
        "__longlong_as_double(0x7ff0000000000000LL)",
        "__longlong_as_double(0x7ff8000000000000LL)",
    ),
}


def with_constants_named(module: tvm.IRModule) -> tvm.IRModule:
    """Return a new module of kernels whose floating-point constants are calls named after their bits.

    Only TVM's code generator may follow: its simplifications need the numbers.
    """
    functions = {
        name: func.with_body(tvm_compat.mutated(func.body, [(tirx.FloatImm, _named)]))
        for name, func in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def with_constants_written(source: str, forms: Forms) -> str:
    """Return the source of kernels with literals for the calls that `with_constants_named` made."""

    def literal(call: re.Match[str]) -> str:
        kind, bits = call.groups()
        value = float(np.array(int(bits, 16), _UNSIGNED[kind]).view(kind))
        finite, infinite, none = forms[kind]
        if np.isnan(value):
            return none
        if np.isinf(value):
            return f"(-{infinite})" if value < 0 else infinite
        return finite.format(_digits(value, _DIGITS[kind]))

    return _CALL.sub(literal, source)


def _named(node: Any, _mutator: tvm_ffi.StructuralMutator) -> Any:
    kind = str(node.ty.dtype)
    if kind not in _UNSIGNED:
        return node
    bits = int(np.array(node.value, kind).view(_UNSIGNED[kind]))
    return tirx.call_pure_extern(kind, f"constant_{kind}_{bits:x}")


def _digits(value: float, count: int) -> str:
    """Return a number as a floating-point literal of C: `3.0`, since `3` would be an integer."""
    text = f"{value:.{count}g}"
    return text if "." in text or "e" in text else f"{text}.0"
