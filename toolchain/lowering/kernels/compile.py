"""Compiles one function from its recipe to a part of a library; runs in a worker process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import s_tir, tirx

from toolchain import tvm_compat
from toolchain.errors import ToolchainError
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import first_line
from toolchain.lowering.dialects.source import KernelSource
from toolchain.lowering.dialects.table import dialect_of
from toolchain.lowering.graph.comparisons import with_bounds_kept
from toolchain.lowering.kernels.device import kernels_of, unit_of
from toolchain.lowering.kernels.part import LibraryPart
from toolchain.lowering.kernels.pickling import unpickled
from toolchain.lowering.objects.export import edited, form_multiply_accumulate, object_of
from toolchain.lowering.schedules.vectors import EXPLICIT, target_of_code
from toolchain.targets.target import host_of

# Removes code that TVM adds to every LLVM module, before it becomes an object.
#
# Each module has debug information, and two functions that convert float16 on cores without such
# instructions. A library keeps neither: the linker removes debug information and functions that are not
# called. For a small function they take half of the time that LLVM needs to write an object.

_CONVERSION = re.compile(r"^define .* @__(?:truncsfhf2|extendhfsf2)\(.*\{\n(?s:.*?)^\}\n", re.MULTILINE)
_DECLARATION = re.compile(r"^declare .*\n", re.MULTILINE)
_HALF = re.compile(r"\bhalf\b")
# Records of variables, the compile unit, and attachments of lines to instructions and functions.
_DEBUG = re.compile(r"^ *#dbg_.*\n|^!llvm\.dbg\.cu = .*\n|,? !dbg !\d+", re.MULTILINE)


def lean(module: tvm.runtime.Module, folder: Path) -> tvm.runtime.Module:
    """Return an LLVM module with the same code, without debug information and unused float16 conversions.

    Parameters
    ----------
    folder
        Folder for a temporary file.
    """
    return edited(module, leaned, folder)


def leaned(text: str) -> str:
    """Return LLVM text without debug information, and without the float16 conversions if no float16 occurs.

    If a function computes with float16, LLVM may call the conversions even if the text does not.
    """
    text = _DEBUG.sub("", text)
    without = _CONVERSION.sub("", text)
    return text if _HALF.search(_DECLARATION.sub("", without)) else without


# TVM's passes that lower generated functions from TensorIR to the input of LLVM and of kernel generators.
#
# TVM's own list of passes serves every kind of device and schedule. Generated functions have no shared
# memory, no reductions across threads, no asynchronous copies and no annotations of tensor units: the
# passes for those change nothing, and take half of the time. A test compares the result with the whole
# list.
#
# The checks of arguments at a function's entry (rank, shape, type, strides: fifty comparisons, each with a
# message) are left out: the network calls it with values that it made itself, or checked as its own inputs.
# They took a quarter of the time to compile a function, and ran at every call.

_KERNELS = tvm.transform.Sequential([tirx.transform.StmtSimplify(), tirx.transform.LowerIntrin()])
_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)


# TVM sometimes moves a vector out of a kernel as a common subexpression, but kernels take only scalars.
_WITHOUT_ELIMINATION = {"tirx.disable_cse_tir": True}


@dataclass(frozen=True)
class Lowered:
    """A lowered function in two parts.

    Attributes
    ----------
    host
        Code of the CPU: the computation, or the launches of kernels.
    device
        The kernels; None if the function has none.
    """

    host: tvm.IRModule
    device: tvm.IRModule | None = None


def lowered(module: tvm.IRModule, target: tvm.target.Target) -> Lowered:
    """Lower a module of one function, like TVM's list of passes; a generated one without argument checks."""
    (func,) = module.functions.values()
    if target.host is not None:
        dialect_of(target)  # prepares TVM
    if func.attrs is None or EXPLICIT not in func.attrs:
        try:
            return Lowered(*tvm_compat.lower_functions(module, target))
        except (ValueError, TypeError, RuntimeError):  # TVM's own are RuntimeErrors
            if target.host is None:
                raise
            with tvm.transform.PassContext(config=_WITHOUT_ELIMINATION):
                return Lowered(*tvm_compat.lower_functions(module, target))
    bound = tirx.transform.BindTarget(target.with_host(host_of(target)))(module)
    ending = [tirx.transform.LowerTVMBuiltin(), tirx.transform.LowerIntrin()]
    passes = tvm.transform.Sequential([*_passes(func, device=target.host is not None)])
    if target.host is None:
        return Lowered(tvm.transform.Sequential([passes, *ending])(bound))
    host, device = tvm_compat.split_host_device(passes(bound))
    return Lowered(tvm.transform.Sequential(ending)(host), device and _KERNELS(device))


def _passes(func: tirx.PrimFunc, *, device: bool) -> Iterator[tvm.transform.Pass]:
    yield from (
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.StmtSimplify(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.NarrowDataType(32),
        s_tir.transform.LoopPartition(),
        tirx.transform.VectorizeLoop(True),
        tirx.transform.StorageRewrite(),
    )
    if _found(func.body, tirx.IfThenElse):
        yield s_tir.transform.HoistIfThenElse()
    yield tirx.transform.UnrollLoop()
    # The pass is for divisions of divisions; its own search for them takes longer than all passes before.
    if any(_found(each.a, *_DIVISIONS) for each in _found(func.body, *_DIVISIONS)):
        yield s_tir.transform.RenormalizeSplitPattern()
    yield from (
        tirx.transform.StmtSimplify(),
        tirx.transform.RemoveNoOp(),
        s_tir.transform.RewriteUnsafeSelect(),
        # Drivers do it themselves. TVM would move vectors out of kernels, which take only scalars.
        *([] if device else [tirx.transform.CommonSubexprElim()]),
        tirx.transform.VerifyMemory(),
        tirx.transform.SplitHostDevice(),
        tirx.transform.MakePackedAPI(),
        tirx.transform.SkipAssert(),
    )


def _found(within: tirx.Stmt | tvm.ir.Expr, *kinds: type) -> list[Any]:
    found: list[Any] = []
    tvm_compat.walked(within, [(kind, found.append) for kind in kinds])
    return found


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
