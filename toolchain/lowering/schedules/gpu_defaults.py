"""Default schedules for devices that run work items: those of TVM's DLight.

They were made for larger GPUs: sums are staged in local memory behind barriers, and convolutions load one
number at a time. They make networks usable, but do not compete with tuned code.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from toolchain import tvm_compat
from toolchain.lowering.functions.definition import MAIN, module_of

_SCHEDULED = "tirx.is_scheduled"  # TVM's own mark


def device_schedule(func: tirx.PrimFunc, target: tvm.target.Target) -> tirx.PrimFunc:
    """Schedule `func`, unscheduled TensorIR, on the work items of a target's device.

    The rules and their order are those of TVM's pipeline (`tvm.relax.backend.gpu_generic`). Functions that
    TVM has already scheduled, such as a sort, are returned as they are, but for their private buffers.
    """
    from tvm.s_tir import dlight  # takes half a second, and CPUs do not need it

    gpu = dlight.gpu
    rules = dlight.ApplyDefaultSchedule(
        gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback()
    )
    with target:
        made: tirx.PrimFunc = rules(module_of(func))[MAIN]
    if func.attrs is None or _SCHEDULED not in func.attrs:
        made = made.without_attr(_SCHEDULED)
    else:
        made = made.with_body(tvm_compat.mutated(made.body, [(tirx.SeqStmt, _private)]))
    if func.attrs is not None and "global_symbol" in func.attrs:
        return made.with_attr("global_symbol", func.attrs["global_symbol"])
    return made.without_attr("global_symbol")


def _private(node: Any, mutator: Any) -> Any:
    """Move private buffers that TVM allocates before kernels into them; else all work items share them."""
    parts = [mutator.mutate(each) for each in node.seq]
    buffers = [
        each for each in parts if isinstance(each, tirx.AllocBuffer) and each.buffer.scope() == "local"
    ]
    kernels = [each for each in parts if each not in buffers]
    if buffers and all(map(_is_kernel, kernels)):
        parts = [_within(each, buffers) for each in kernels]
    return parts[0] if len(parts) == 1 else tirx.SeqStmt(parts)


def _is_kernel(node: Any) -> bool:
    return isinstance(node, tirx.AttrStmt) and node.attr_key == "thread_extent"


def _within(node: Any, buffers: list[Any]) -> Any:
    if _is_kernel(node):
        return tirx.AttrStmt(node.node, node.attr_key, node.value, _within(node.body, buffers))
    return tirx.SeqStmt([*buffers, node])
