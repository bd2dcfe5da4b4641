"""Default schedules for CPUs.

Each reduction is computed row by row: all spatial axes but the last run in parallel, the reduction loops are
outside the last spatial axis, and LLVM vectorises that axis. The element-wise epilogue (bias, activation,
residual) is computed on the row while it is in the cache. They make networks usable, but do not compete with
tuned code.
"""

from __future__ import annotations

from math import prod

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.schedule import LoopRV, SBlockRV

_ROW = 64  # longest piece of a row that is cut because nothing else could run in parallel
_JOBS = 8  # least number of parallel pieces for the cores of today's boards


def default_schedule(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Schedule `func`, unscheduled TensorIR with a root block, as parallel row-wise loops.

    Functions without a rule are returned unchanged: correct, but slower.
    """
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
    try:
        _inline(schedule)
        _schedule_blocks(schedule)
    except s_tir.ScheduleError:
        return func
    made: tirx.PrimFunc = schedule.mod["main"]
    return made


def _is_reduction(schedule: s_tir.Schedule, block: SBlockRV) -> bool:
    return any(axis.iter_type != tirx.IterVar.DataPar for axis in schedule.get(block).iter_vars)


def _extents(schedule: s_tir.Schedule, block: SBlockRV) -> list[int]:
    """Return the extents of the block's spatial axes."""
    axes = schedule.get(block).iter_vars
    return [int(axis.dom.extent) for axis in axes if axis.iter_type == tirx.IterVar.DataPar]


def _inline(schedule: s_tir.Schedule) -> None:
    """Inline element-wise blocks into element-wise consumers; padding stays separate."""
    root = schedule.get_sblock("root")
    outputs = {schedule.get(block).name_hint for block in schedule.get_output_blocks(root)}
    for block in schedule.get_child_blocks(root):
        if schedule.get(block).name_hint in outputs or _is_reduction(schedule, block):
            continue
        if any(_is_reduction(schedule, consumer) for consumer in schedule.get_consumers(block)):
            continue
        schedule.compute_inline(block)


def _schedule_blocks(schedule: s_tir.Schedule) -> None:
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    done: set[str] = set()
    # Decomposing a reduction renames its block, so names are taken before anything is changed.
    for name, block in reversed([(schedule.get(block).name_hint, block) for block in blocks]):
        if name in done:
            continue
        if _is_reduction(schedule, block):
            _rows(schedule, block, None)
            continue
        reductions = [p for p in schedule.get_producers(block) if _is_reduction(schedule, p)]
        if len(reductions) == 1 and _extents(schedule, reductions[0]) == _extents(schedule, block):
            done.add(schedule.get(reductions[0]).name_hint)
            _rows(schedule, block, reductions[0])
        elif loops := schedule.get_loops(block):
            jobs, _ = schedule.split(schedule.fuse(*loops), [None, _ROW])
            schedule.parallel(jobs)


def _rows(schedule: s_tir.Schedule, block: SBlockRV, producer: SBlockRV | None) -> None:
    """Run the rows of `block` in parallel, each with its part of the reduction `producer`."""
    extents = _extents(schedule, block)
    if not extents:  # a single number: nothing to run in parallel
        return
    spatial = list(schedule.get_loops(block)[: len(extents)])
    row = max((axis for axis, extent in enumerate(extents) if extent > 1), default=0)
    if prod(extents[:row]) < _JOBS and extents[row] > _ROW:
        piece = max(d for d in range(1, _ROW + 1) if extents[row] % d == 0)
        spatial[row : row + 1] = schedule.split(spatial[row], [None, piece])
        row += 1
    if row == 0:
        spatial[:1] = schedule.split(spatial[0], [None, 1])
        row = 1
    jobs = schedule.fuse(*spatial[:row])
    schedule.parallel(jobs)
    reduction = block
    inner: list[LoopRV] = spatial[row:]
    if producer is not None:
        reduction = producer
        schedule.compute_at(producer, jobs, preserve_unit_loops=True)
        loops = schedule.get_loops(producer)[1:]
        inner = list(loops[: len(extents)])
    loops = schedule.get_loops(reduction)
    reduced = list(loops[len(loops) - _reduced_axes(schedule, reduction) :])
    schedule.reorder(*reduced, *inner)
    schedule.decompose_reduction(reduction, reduced[0])


def _reduced_axes(schedule: s_tir.Schedule, block: SBlockRV) -> int:
    return len(schedule.get(block).iter_vars) - len(_extents(schedule, block))
