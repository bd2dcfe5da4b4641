"""Hashes what a function computes; records are stored under this hash."""

from __future__ import annotations

import tvm_ffi
from tvm.tirx import PrimFunc

# Attributes that name a function or repeat facts in its body; passes add and drop them.
_LABELS = ("global_symbol", "op_pattern", "tirx.noalias", "s_tir")


def unlabelled(func: PrimFunc) -> PrimFunc:
    """Return the function without attributes that only name it."""
    for label in _LABELS:
        func = func.without_attr(label)
    return func


def workload_hash(func: PrimFunc) -> str:
    """Return 16 hexadecimal digits that are equal for equal computations, in every process.

    Names of functions, buffers, variables and blocks are ignored.
    """
    return f"{tvm_ffi.structural_hash(unlabelled(func)) & (2**64 - 1):016x}"


def same_workload(a: PrimFunc, b: PrimFunc) -> bool:
    """Whether two functions are structurally equal except for names, as equal hashes suggest."""
    return bool(tvm_ffi.structural_equal(unlabelled(a), unlabelled(b)))
