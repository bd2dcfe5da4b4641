"""Postprocessors that reject schedules unsuitable for a small GPU, beyond TVM's own verification.

TVM limits work groups, local memory and vectors. It does not limit private memory (of 54 random schedules of
a convolution that it accepted, 45 had more than 512 bytes per work item, one 114 KB), nor require vectors.
"""

from __future__ import annotations

from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.sym import detect_linear_equation

_TO_SMALL_BUFFERS = tvm.transform.Sequential(
    [
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
    ]
)
"""TVM's own first passes; after them, a buffer has the size that one work item keeps of it."""


def private_bytes_of(module: tvm.IRModule) -> int:
    """Return the bytes of a work item's private arrays, in the scheduled function of a module."""
    total = 0

    def note(block: Any) -> None:
        nonlocal total
        for buffer in block.alloc_buffers:
            if buffer.scope() == "local":
                total += prod(int(extent) for extent in buffer.shape) * tvm.DataType(buffer.dtype).bits // 8

    for func in _TO_SMALL_BUFFERS(module).functions.values():
        tvm_ffi.structural_walk(func.body, [(s_tir.SBlock, note)])
    return total


def sums_in_vectors(module: tvm.IRModule, lanes: int) -> bool:
    """Return whether sums in a work item's private arrays are vectors.

    The vectors must run along the output's last axis, along which weights and output are contiguous; an axis
    that vectors do not divide is exempt.
    """
    realized: list[s_tir.SBlockRealize] = []
    vectors: list[tirx.Var] = []

    def note(loop: tirx.For) -> None:
        if loop.kind == tirx.ForKind.VECTORIZED and int(loop.extent) == lanes:
            vectors.append(loop.loop_var)

    for func in module.functions.values():
        tvm_ffi.structural_walk(func.body, [(s_tir.SBlockRealize, realized.append), (tirx.For, note)])
    return all(_along_last_axis(each, vectors, lanes) for each in realized if _sums(each.block))


def _sums(block: s_tir.SBlock) -> bool:
    kept = any(region.source.scope() == "local" for region in block.writes)
    return kept and any(axis.iter_type != tirx.IterVar.DataPar for axis in block.iter_vars)


def _along_last_axis(realize: s_tir.SBlockRealize, vectors: list[tirx.Var], lanes: int) -> bool:
    both = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    axis, value = [pair for pair in both if pair[0].iter_type == tirx.IterVar.DataPar][-1]
    if int(axis.dom.extent) % lanes:
        return True
    factors = [detect_linear_equation(value, [each]) for each in vectors]
    return any(found and isinstance(found[0], tirx.IntImm) and int(found[0]) == 1 for found in factors)


@derived_object
class PrivateBytes(ms.postproc.PyPostproc):  # type: ignore[misc]
    """Accepts schedules whose work items have at most `limit` bytes in private arrays."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        """Do nothing: the limit is all it needs."""

    def apply(self, sch: Schedule) -> bool:
        """Return whether a schedule is accepted."""
        return private_bytes_of(sch.mod) <= self.limit

    def clone(self) -> PrivateBytes:
        """Return a copy."""
        return PrivateBytes(self.limit)


@derived_object
class SumsInVectors(ms.postproc.PyPostproc):  # type: ignore[misc]
    """Accepts schedules whose sums are vectors of `lanes` lanes."""

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        """Do nothing: the number of lanes is all it needs."""

    def apply(self, sch: Schedule) -> bool:
        """Return whether a schedule is accepted."""
        return sums_in_vectors(sch.mod, self.lanes)

    def clone(self) -> SumsInVectors:
        """Return a copy."""
        return SumsInVectors(self.lanes)
