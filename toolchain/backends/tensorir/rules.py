"""MetaSchedule's rules for the schedules to search, for CPUs and for small GPUs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import tvm
from tvm.s_tir import meta_schedule as ms

from toolchain import tvm_compat
from toolchain.backends.tensorir.limits import PrivateBytes, SumsInVectors
from toolchain.devices.by_kind import KindTable
from toolchain.devices.device import Device
from toolchain.errors import UsageError
from toolchain.targets.target import BoardTarget

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
