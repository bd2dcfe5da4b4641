"""Prepares a kernel's source for Mesa: adds the work-group size, and vector accesses as Arm compiles them."""

from __future__ import annotations

import re

from toolchain.devices.kernel import Kernel
from toolchain.errors import UsageError

# Mesa's front end splits vloadN and vstoreN into single elements, but Arm's compiler does not: the kernel
# `vectorize` of 2018 was measured at 28.4 GFLOPS; modelled with whole vectors it gets 29.2, with elements
# 11.5. So these macros access whole, aligned vectors; TVM's are aligned if its tiles are whole vectors.
# Private arrays of a work item are accessed by element: Mesa keeps those in registers, but would put an array
# with a cast pointer into memory.
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
    """Return functions that load and store vectors of private arrays element by element."""
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
    """Return the source text for the compiler.

    It declares the size of the work group: the compiler gives 16 registers to groups of up to 64 items and 8
    to larger ones, and assumes 128 items without a declaration.

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
