"""TVM's passes that lower generated functions from TensorIR to the input of LLVM and of kernel generators.

TVM's own list of passes serves every kind of device and schedule. Generated functions have no shared memory,
no reductions across threads, no asynchronous copies and no annotations of tensor units: the passes for those
change nothing, and take half of the time. A test compares the result with the whole list.

The checks of arguments at a function's entry (rank, shape, type, strides: fifty comparisons, each with
a message) are left out: the network calls it with values that it made itself, or checked as its own inputs.
They took a quarter of the time to compile a function, and ran at every call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import s_tir, tirx

from toolchain import tvm_compat
from toolchain.lowering.dialects.table import dialect_of
from toolchain.lowering.schedules.vectors import EXPLICIT
from toolchain.targets.target import host_of

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
