"""Generated code for people to read."""

from __future__ import annotations

import tvm
from tvm import tirx

from toolchain.errors import UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.lowering.functions.definition import MAIN
from toolchain.lowering.kernels.compile import compiled
from toolchain.lowering.kernels.device import listing

LLVM = {"llvm": "ll", "assembly": "s"}
"""Form -> what TVM calls it."""
DEVICE = {"opencl": "opencl"}
"""Form -> kind of the device whose source it is."""


def list_code(func: tirx.PrimFunc, target: tvm.target.Target, form: str) -> str:
    """Return a scheduled function as people read it.

    Parameters
    ----------
    form
        `tir`: TensorIR. `llvm`, `assembly`: LLVM's own code; of the host's part where a device computes.
        `opencl`: what that device's driver is given.

    Raises
    ------
    UsageError
        The function is not for such a device.
    """
    if form in DEVICE and DEVICE[form] != target.kind.name:
        raise UsageError(
            f"--form {form}: this code is for another device, a CPU",
            f"use --form tir|llvm|assembly, or --device {DEVICE[form]}",
        )
    if form not in LLVM and form not in DEVICE:
        return str(func.script())
    with scratch_folder() as folder:
        code = compiled(func, target, MAIN, folder)
    if form in DEVICE:
        return listing(code.kernels)
    return str(code.host.inspect_source(LLVM[form]))
