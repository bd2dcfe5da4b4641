"""Generated code for people to read."""

from __future__ import annotations

import tvm
from tvm import tirx

from toolchain.files.scratch import scratch_folder
from toolchain.lowering.definition import MAIN
from toolchain.lowering.kernels.compile import compiled

_SOURCES = {"llvm": "ll", "assembly": "s"}
"""Form -> what TVM calls it."""


def list_code(func: tirx.PrimFunc, target: tvm.target.Target, form: str) -> str:
    """Return a scheduled function as TensorIR (`tir`), as LLVM's own code (`llvm`) or as `assembly`."""
    if form not in _SOURCES:
        return str(func.script())
    with scratch_folder() as folder:
        return str(compiled(func, target, MAIN, folder).inspect_source(_SOURCES[form]))
