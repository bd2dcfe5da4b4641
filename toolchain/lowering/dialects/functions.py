"""Registers elementary functions that have the same name in OpenCL C and TVM, but no rule in TVM.

Without a rule TVM writes the names of C's functions for float, such as `asinf`, which OpenCL C does not have.
"""

from __future__ import annotations

import tvm
from tvm import tirx

_NAMES = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "hypot", "ldexp", "log1p",
    "nextafter", "tan",
)  # fmt: skip


def _same(call: tvm.ir.Call) -> tvm.ir.Call:
    return tirx.call_pure_extern(str(call.ty.dtype), call.op.name.removeprefix("tirx."), *call.args)


def register_functions() -> None:
    """Make TVM emit calls of OpenCL C's `acos`, `tan` and so on, in this whole process."""
    for name in _NAMES:
        tirx.register_intrin_lowering(f"tirx.{name}", "opencl", f=_same, level=99)
