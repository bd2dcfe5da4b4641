"""MetaSchedule's rules for the schedules to search, for CPUs and for small GPUs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.sym import detect_linear_equation

from toolchain import tvm_compat
from toolchain.devices.device import Device
from toolchain.devices.table import KindTable
from toolchain.errors import UsageError
from toolchain.targets.target import BoardTarget

# Postprocessors that reject schedules unsuitable for a small GPU, beyond TVM's own verification.
#
# TVM limits work groups, local memory and vectors. It does not limit private memory (of 54 random schedules
# of a convolution that it accepted, 45 had more than 512 bytes per work item, one 114 KB), nor require
# vectors.

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


# The same values as in MetaSchedule's default rules for LLVM targets.
_MAX_JOBS_PER_CORE = 16
_MAX_INNERMOST = 64
_UNROLL_STEPS = [0, 16, 64, 512]
_FLOAT_BYTES = 4
_MOST_GROUPS = 65535
_GROUP_SIZES = [16, 32, 64, 128, 256]
# A search for few candidates needs no large population: MetaSchedule's default of 512 takes 6 s for a
# batch of 8, while 128 takes 1.5 s (one convolution, one core).
_POPULATION = 128
# On a GPU few draws are legal: the first batch of a small convolution takes 18 s with 128 and 4 s with 32,
# and has 64 and 61 new schedules.
_GPU_POPULATION = 32


def cpu_space() -> ms.space_generator.PostOrderApply:
    """Return the design space for float kernels on a CPU, without tensor intrinsics."""
    rule, mutator, postproc = ms.schedule_rule, ms.mutator, ms.postproc
    return ms.space_generator.PostOrderApply(
        sch_rules=[
            rule.AutoInline(
                into_producer=False,
                into_consumer=True,
                inline_const_tensor=True,
                disallow_if_then_else=True,
                require_injective=True,
                require_ordered=True,
                disallow_op=["tirx.exp"],
            ),
            rule.AddRFactor(max_jobs_per_core=_MAX_JOBS_PER_CORE, max_innermost_factor=_MAX_INNERMOST),
            rule.MultiLevelTiling(
                structure="SSRSRS",
                tile_binds=None,
                max_innermost_factor=_MAX_INNERMOST,
                vector_load_lens=None,
                reuse_read=None,
                reuse_write=rule.ReuseType(req="may", levels=[1, 2], scope="global"),
            ),
            rule.ParallelizeVectorizeUnroll(
                max_jobs_per_core=_MAX_JOBS_PER_CORE,
                max_vectorize_extent=_MAX_INNERMOST,
                unroll_max_steps=_UNROLL_STEPS,
                unroll_explicit=True,
            ),
            rule.RandomComputeLocation(),
        ],
        postprocs=[
            postproc.DisallowDynamicLoop(),
            postproc.RewriteParallelVectorizeUnroll(),
            postproc.RewriteReductionBlock(),
        ],
        mutator_probs={
            mutator.MutateTileSize(): 0.9,
            mutator.MutateComputeLocation(): 0.05,
            mutator.MutateUnroll(): 0.03,
            mutator.MutateParallel(max_jobs_per_core=_MAX_JOBS_PER_CORE): 0.02,
        },
    )


def gpu_space(device: Device) -> ms.space_generator.PostOrderApply:
    """Return the design space for float kernels on a GPU whose local memory is main memory, such as a Mali.

    A work item computes a tile of outputs, in vectors along the channels, with its sums in private arrays.
    Local memory is not used, because it is not faster than the board's memory; so there are no barriers.
    Padding is a kernel of its own, so that no loop has conditions for it. The sketch is that of TVM's
    auto-scheduler for `device=mali` (up to TVM 0.11), without local memory.
    """
    rule, mutator, postproc = ms.schedule_rule, ms.mutator, ms.postproc
    inline = partial(
        rule.AutoInline,
        into_consumer=True,
        inline_const_tensor=True,
        disallow_if_then_else=True,
        require_injective=False,
        require_ordered=False,
        disallow_op=None,
    )
    lanes = (device.vector_bytes or _FLOAT_BYTES) // _FLOAT_BYTES
    group = device.max_work_group or _GROUP_SIZES[0]
    return ms.space_generator.PostOrderApply(
        sch_rules=[
            rule.InlineConstantScalars(),
            inline(into_producer=False),
            rule.MultiLevelTiling(
                structure="SSRS",
                tile_binds=["blockIdx.x", "threadIdx.x"],
                max_innermost_factor=lanes,
                vector_load_lens=None,
                reuse_read=None,
                reuse_write=rule.ReuseType(req="must", levels=[2], scope="local"),
            ),
            inline(into_producer=True),
            rule.ParallelizeVectorizeUnroll(
                max_jobs_per_core=-1,  # the parallel axes are bound above
                max_vectorize_extent=lanes,
                unroll_max_steps=[64, 256, 512],
                unroll_explicit=True,
            ),
            rule.AutoBind(
                max_threadblocks=_MOST_GROUPS,
                thread_extents=[size for size in _GROUP_SIZES if size <= group],
            ),
        ],
        postprocs=[
            postproc.DisallowDynamicLoop(),
            postproc.RewriteUnboundBlock(_MOST_GROUPS),
            postproc.RewriteParallelVectorizeUnroll(),
            postproc.RewriteReductionBlock(),
            SumsInVectors(lanes),
            PrivateBytes(device.private_bytes or 0),
            postproc.VerifyGPUCode(),
        ],
        mutator_probs={
            mutator.MutateTileSize(): 0.9,
            mutator.MutateUnroll(): 0.08,
            mutator.MutateThreadBinding(): 0.02,
        },
    )


def cuda_space(device: Device) -> ms.space_generator.PostOrderApply:
    """Return MetaSchedule's own design space for NVIDIA's GPUs, without tensor cores.

    A group of items copies tiles of both operands to shared memory, and an item keeps its sums in registers.
    TVM's target has the device's limits.
    """
    del device
    return ms.space_generator.PostOrderApply(sch_rules="cuda", postprocs="cuda", mutator_probs="cuda")


DEVICES: KindTable[Callable[[Device], ms.space_generator.PostOrderApply]] = KindTable(
    "schedules", {"opencl": gpu_space, "cuda": cuda_space}
)
"""Returns the design space from a device's entry of the board class, by kind."""


def tune_context(module: tvm.IRModule, target: BoardTarget, name: str, seed: int) -> ms.TuneContext:
    """Return a search over the target's design space for the one function of `module`."""
    device = target.limits
    schedules = None if device is None else DEVICES.find(device.kind)
    if device is not None and schedules is None:
        raise UsageError(f"--device {device.kind}: no schedules are known for it", "leave --layout out")
    population = _POPULATION if device is None else _GPU_POPULATION
    with tvm_compat.without_tensor_intrinsics():
        return ms.TuneContext(
            module,
            target=target.target,
            space_generator=schedules(device) if device and schedules else cpu_space(),
            search_strategy=ms.search_strategy.EvolutionarySearch(
                population_size=population, init_min_unmeasured=population // 4
            ),
            task_name=name,
            rand_state=seed,
        )
