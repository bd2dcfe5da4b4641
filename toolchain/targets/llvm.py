"""Queries the LLVM that is built into TVM about cpus and features."""

from __future__ import annotations

from functools import cache

import tvm


def _target(triple: str, cpu: str | None = None) -> tvm.target.Target:
    options = {"kind": "llvm", "mtriple": triple}
    return tvm.target.Target(options if cpu is None else {**options, "mcpu": cpu})


@cache
def cpus(triple: str) -> frozenset[str]:
    """Return the cpu names that LLVM knows for a triple."""
    listed = tvm.get_global_func("target.llvm_get_cpu_archlist")(_target(triple))
    return frozenset(str(name) for name in listed)


@cache
def cpu_features(triple: str, cpu: str) -> frozenset[str]:
    """Return the LLVM features of a cpu."""
    listed = tvm.get_global_func("target.llvm_get_cpu_features")(_target(triple, cpu))
    return frozenset(str(name) for name in listed)


def without_loop_vectors(target: tvm.target.Target) -> tvm.target.Target:
    """Return the target with LLVM's loop vectoriser switched off.

    TVM sets the option only while it compiles for this target.
    """
    definition = {key: value for key, value in target.export().items() if key != "tag"}
    return tvm.target.Target({**definition, "cl-opt": ["-vectorize-loops:bool=false"]})
