"""One function, from its recipe to what a library is linked of; runs in a worker process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import tirx

from toolchain.errors import ToolchainError
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import first_line
from toolchain.lowering.graph.comparisons import with_bounds_kept
from toolchain.lowering.kernels.device import Kernel, kernels_of
from toolchain.lowering.kernels.lean import lean
from toolchain.lowering.kernels.part import Part
from toolchain.lowering.kernels.passes import Lowered, lowered
from toolchain.lowering.kernels.pickling import unpickled
from toolchain.lowering.objects.armv7 import form_multiply_accumulate
from toolchain.lowering.objects.in_memory import object_of
from toolchain.lowering.schedules.vectors import target_of_code
from toolchain.targets.target import host_of


def compile_kernel(recipe: bytes, target: str, symbol: str) -> bytes:
    """Return what a function becomes, a `Part` as bytes.

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
            return compiled(func, tvm.target.Target(target), symbol, folder).part(folder).to_bytes()
    except (ValueError, TypeError, RuntimeError) as error:  # TVM's own are RuntimeErrors
        raise ToolchainError(f"TVM cannot compile {symbol}: {first_line(error)}") from error


@dataclass(frozen=True)
class Compiled:
    """A function: LLVM's module of what the host does, and the kernels that it begins on a device."""

    host: tvm.runtime.Module
    kernels: tuple[Kernel, ...] = ()

    def part(self, folder: Path) -> Part:
        """Return it without TVM's objects.

        Parameters
        ----------
        folder
            For files that are removed again.
        """
        return Part(object_of(lean(self.host, folder)), self.kernels)


def lower(func: tirx.PrimFunc, target: tvm.target.Target, symbol: str) -> tuple[Lowered, tvm.target.Target]:
    """Return a scheduled function, lowered, and what to compile it for."""
    module = with_bounds_kept(tvm.IRModule({symbol: func.with_attr("global_symbol", symbol)}), target)
    best = target_of_code(module, target)
    return lowered(module, best), best


def compiled(func: tirx.PrimFunc, target: tvm.target.Target, symbol: str, folder: Path) -> Compiled:
    """Return a scheduled function, compiled.

    Parameters
    ----------
    folder
        For files that are removed again.
    """
    both, best = lower(func, target, symbol)
    code = tvm.get_global_func("target.build.llvm")(both.host, host_of(best))
    host = form_multiply_accumulate(tvm.runtime.Executable(code), folder).mod
    return Compiled(host, kernels_of(both.device, target) if both.device else ())
