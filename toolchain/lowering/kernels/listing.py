"""Lists generated code as readable text."""

from __future__ import annotations

import tvm
from tvm import tirx

from toolchain.errors import UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.lowering.functions.definition import MAIN
from toolchain.lowering.kernels.compile import compiled
from toolchain.lowering.kernels.device import listing

LLVM = {"llvm": "ll", "assembly": "s"}
"""Form -> TVM's name of the format."""


def list_code(func: tirx.PrimFunc, target: tvm.target.Target, form: str) -> str:
    """Return the code of a scheduled function as readable text.

    Parameters
    ----------
    form
        `tir`: TensorIR. `llvm`, `assembly`: LLVM's code, of the host's part if a device computes. A kind of
        device: the source of its kernels.

    Raises
    ------
    UsageError
        The function is for another device than `form`.
    """
    if form == "tir":
        return str(func.script())
    if form not in LLVM and form != target.kind.name:
        other = "a CPU" if target.host is None else target.kind.name
        raise UsageError(
            f"--form {form}: this code is for another device, {other}",
            f"use --form tir|llvm|assembly, or --device {form}",
        )
    with scratch_folder() as folder:
        code = compiled(func, target, MAIN, folder)
    if form not in LLVM:
        return listing(code.kernels)
    return str(code.host.inspect_source(LLVM[form]))
