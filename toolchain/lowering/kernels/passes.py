"""TVM's passes from TensorIR to what LLVM code is made of, for functions that are generated.

TVM's own list serves every kind of device and schedule. What the generators write has no blocks of threads,
no shared memory, no copies that overlap with work and no annotations of tensor units: the passes for those
change nothing, and take half of the time. A test compares with the whole list.

What a function's own entry asks of its arguments (rank, shape, type, strides: fifty comparisons, each with
a message) is left out: the network calls it, with values that it made itself or has checked as its own
inputs. That was a quarter of what a function cost, and code that ran at every call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from toolchain import tvm_compat
from toolchain.lowering.vectors import EXPLICIT

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)


def lowered(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Return a module of one function as TVM's own list of passes does, if it is generated without checks."""
    (func,) = module.functions.values()
    if func.attrs is None or EXPLICIT not in func.attrs:
        return tvm_compat.lower_functions(module, target)
    bound = tirx.transform.BindTarget(target.with_host(target))(module)
    return tvm.transform.Sequential([*_passes(func)])(bound)


def _passes(func: tirx.PrimFunc) -> Iterator[tvm.transform.Pass]:
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
    # It is about divisions of divisions; the search for them costs more than all before it.
    if any(_found(each.a, *_DIVISIONS) for each in _found(func.body, *_DIVISIONS)):
        yield s_tir.transform.RenormalizeSplitPattern()
    yield from (
        tirx.transform.StmtSimplify(),
        tirx.transform.RemoveNoOp(),
        s_tir.transform.RewriteUnsafeSelect(),
        tirx.transform.CommonSubexprElim(),
        tirx.transform.VerifyMemory(),
        tirx.transform.SplitHostDevice(),
        tirx.transform.MakePackedAPI(),
        tirx.transform.SkipAssert(),
        tirx.transform.LowerTVMBuiltin(),
        tirx.transform.LowerIntrin(),
    )


def _found(within: tirx.Stmt | tvm.ir.Expr, *kinds: type) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(within, [(kind, found.append) for kind in kinds])
    return found
