"""What the compiler is given: a kernel's source, its work group, and vectors as Arm's compiler loads them."""

from __future__ import annotations

import re

from toolchain.devices.kernel import Kernel
from toolchain.errors import UsageError

# Mesa's front end splits vloadN and vstoreN into single elements, Arm's does not: of 2018's kernel
# `vectorize` 28.4 GFLOPS were measured, 29.2 come of whole vectors, 11.5 of elements. So they are said as
# accesses of whole, aligned vectors. The vectors of TVM's code lie so, where its tiles are of whole vectors.
# Arrays of a work item are taken element by element: of a cast Mesa makes memory, of elements registers.
_WHOLE = """\
#define LOAD(T, N, S) \\
  static inline T##N __attribute__((overloadable, always_inline)) load##N(size_t i, const S T *p) { \\
    return *((const S T##N *)p + i); }
#define STORE(T, N, S) \\
  static inline void __attribute__((overloadable, always_inline)) store##N(T##N v, size_t i, S T *p) { \\
    *((S T##N *)p + i) = v; }
#define SPACES(T, N) LOAD(T, N, __global) LOAD(T, N, __local) LOAD(T, N, __constant) \\
  STORE(T, N, __global) STORE(T, N, __local)
"""
_WIDTHS = (2, 4, 8, 16)
_TYPES = ("float", "int", "uint", "short", "ushort", "char", "uchar")
_HALF = """\
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
{}#endif
"""


def _accesses(kind: str) -> str:
    return "".join(f"SPACES({kind}, {width})\n{_private(kind, width)}" for width in _WIDTHS)


def _private(kind: str, width: int) -> str:
    """Return loads and stores of a work item's own arrays, element by element."""
    places = [f"p[{width} * i + {place}]" for place in range(width)]
    stores = " ".join(f"{place} = v.s{number:x};" for number, place in enumerate(places))
    vector, attributes = f"{kind}{width}", "__attribute__((overloadable, always_inline))"
    return (
        f"static inline {vector} {attributes} load{width}(size_t i, const __private {kind} *p) "
        f"{{ return ({vector})({', '.join(places)}); }}\n"
        f"static inline void {attributes} store{width}({vector} v, size_t i, __private {kind} *p) "
        f"{{ {stores} }}\n"
    )


_ALIGNED = "".join(
    (
        _WHOLE,
        *map(_accesses, _TYPES),
        _HALF.format(_accesses("half")),
        *(f"#define v{what}{width} {what}{width}\n" for what in ("load", "store") for width in _WIDTHS),
    )
)


def prepared(kernel: Kernel) -> str:
    """Return what is compiled.

    The work group stands in it: the compiler gives 16 registers to groups of 64 items or fewer, 8 to larger
    ones, and takes 128 items for granted where it is told nothing.

    Raises
    ------
    UsageError
        The source has no such kernel.
    """
    size = ", ".join(map(str, kernel.group))
    attribute = f"__kernel __attribute__((reqd_work_group_size({size}))) void {kernel.name}("
    text, found = re.subn(rf"__kernel\s+void\s+{re.escape(kernel.name)}\s*\(", attribute, kernel.source)
    if not found:
        raise UsageError(f"the source of kernel {kernel.name} has no such kernel")
    return _ALIGNED + text
