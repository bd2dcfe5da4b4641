"""The schedules that are searched: MetaSchedule's rules for CPUs."""

from __future__ import annotations

import sys
import types

import tvm
from tvm.s_tir import meta_schedule as ms

# The same numbers as MetaSchedule's default rules for LLVM targets.
_MAX_JOBS_PER_CORE = 16
_MAX_INNERMOST = 64
_UNROLL_STEPS = [0, 16, 64, 512]
# A search for few candidates needs no large population: 512, MetaSchedule's default, takes 6 s for
# a batch of 8 where 128 take 1.5 s (one convolution, one core).
_POPULATION = 128
_INTRINSICS = "tvm.s_tir.tensor_intrin"


def skip_intrinsics() -> None:
    """Keep `TuneContext` from importing the tensor intrinsics of every device: 10 s, for int8 only."""
    sys.modules.setdefault(_INTRINSICS, types.ModuleType(_INTRINSICS))


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


def tune_context(module: tvm.IRModule, target: tvm.target.Target, name: str, seed: int) -> ms.TuneContext:
    """Return a search over `cpu_space` for the one function of `module`."""
    skip_intrinsics()
    return ms.TuneContext(
        module,
        target=target,
        space_generator=cpu_space(),
        search_strategy=ms.search_strategy.EvolutionarySearch(
            population_size=_POPULATION, init_min_unmeasured=_POPULATION // 4
        ),
        task_name=name,
        rand_state=seed,
    )
