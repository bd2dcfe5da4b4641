"""One function, from its recipe to an object; runs in a worker process."""

from __future__ import annotations

from pathlib import Path

import tvm
from tvm import tirx

from toolchain.errors import ToolchainError
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import first_line
from toolchain.lowering.armv7 import form_multiply_accumulate
from toolchain.lowering.comparisons import with_bounds_kept
from toolchain.lowering.in_memory import object_of
from toolchain.lowering.kernels.passes import lowered
from toolchain.lowering.kernels.pickling import unpickled
from toolchain.lowering.vectors import target_of_code


def compile_kernel(recipe: bytes, target: str, symbol: str) -> bytes:
    """Return the object of a function, an ELF file.

    Parameters
    ----------
    recipe
        From `pickled`.
    target
        As its own text.
    symbol
        What the function is called.

    Raises
    ------
    ToolchainError
        TVM cannot compile it.
    """
    try:
        func = unpickled(recipe).function()
        with scratch_folder() as folder:
            return object_of(compiled(func, tvm.target.Target(target), symbol, folder))
    except (ValueError, TypeError, RuntimeError) as error:  # TVM's own are RuntimeErrors
        raise ToolchainError(f"TVM cannot compile the network: {first_line(error)}") from error


def compiled(func: tirx.PrimFunc, target: tvm.target.Target, symbol: str, folder: Path) -> tvm.runtime.Module:
    """Return LLVM's module of a scheduled function.

    Parameters
    ----------
    folder
        For files that are removed again.
    """
    module = with_bounds_kept(tvm.IRModule({symbol: func.with_attr("global_symbol", symbol)}), target)
    best = target_of_code(module, target)
    code = tvm.get_global_func("target.build.llvm")(lowered(module, best), best)
    return form_multiply_accumulate(tvm.runtime.Executable(code), folder).mod
