"""Compiles one function from its recipe to a part of a library; runs in a worker process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import tirx

from toolchain.errors import ToolchainError
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import first_line
from toolchain.lowering.dialects.source import KernelSource
from toolchain.lowering.graph.comparisons import with_bounds_kept
from toolchain.lowering.kernels.device import kernels_of, unit_of
from toolchain.lowering.kernels.lean import lean
from toolchain.lowering.kernels.part import LibraryPart
from toolchain.lowering.kernels.passes import Lowered, lowered
from toolchain.lowering.kernels.pickling import unpickled
from toolchain.lowering.objects.armv7 import form_multiply_accumulate
from toolchain.lowering.objects.in_memory import object_of
from toolchain.lowering.schedules.vectors import target_of_code
from toolchain.targets.target import host_of


def compile_kernel(recipe: bytes, target: str, symbol: str) -> bytes:
    """Compile a function; return its `LibraryPart` as bytes.

    Parameters
    ----------
    recipe
        Recipe as bytes, from `pickled`.
    target
        TVM target as text.
    symbol
        Name of the function.

    Raises
    ------
    ToolchainError
        TVM cannot compile it.
    """
    try:
        func = unpickled(recipe).function()
        with scratch_folder() as folder:
            return compiled(func, tvm.target.Target(target), symbol, folder).part(folder).to_bytes()
    except (ValueError, TypeError, RuntimeError) as error:  # TVM's own are RuntimeErrors
        raise ToolchainError(f"TVM cannot compile {symbol}: {first_line(error)}") from error


@dataclass(frozen=True)
class Compiled:
    """A compiled function: the LLVM module of its host code, and the kernels that it launches."""

    host: tvm.runtime.Module
    target: tvm.target.Target
    kernels: tuple[KernelSource, ...] = ()

    def part(self, folder: Path) -> LibraryPart:
        """Write the object code; return it with the kernels, compiled if the dialect has a compiler.

        Parameters
        ----------
        folder
            Folder for temporary files.

        Raises
        ------
        ToolchainError
            The compiler rejects the kernels, or is missing (MissingError).
        """
        return LibraryPart(object_of(lean(self.host, folder)), unit_of(self.kernels, self.target))


def lower(func: tirx.PrimFunc, target: tvm.target.Target, symbol: str) -> tuple[Lowered, tvm.target.Target]:
    """Lower a scheduled function; return it with the target to compile it for."""
    module = with_bounds_kept(tvm.IRModule({symbol: func.with_attr("global_symbol", symbol)}), target)
    best = target_of_code(module, target)
    return lowered(module, best), best


def compiled(func: tirx.PrimFunc, target: tvm.target.Target, symbol: str, folder: Path) -> Compiled:
    """Compile a scheduled function.

    Parameters
    ----------
    folder
        Folder for temporary files.
    """
    both, best = lower(func, target, symbol)
    code = tvm.get_global_func("target.build.llvm")(both.host, host_of(best))
    host = form_multiply_accumulate(tvm.runtime.Executable(code), folder).mod
    return Compiled(host, target, kernels_of(both.device, target) if both.device else ())
