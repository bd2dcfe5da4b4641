"""Default schedules for devices that run work items: those of TVM's DLight.

They were made for larger GPUs: sums are staged in local memory behind barriers, and convolutions load one
number at a time. They make networks usable, but do not compete with tuned code.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from toolchain.lowering.functions.definition import MAIN, module_of

_SCHEDULED = "tirx.is_scheduled"  # TVM's own mark


def device_schedule(func: tirx.PrimFunc, target: tvm.target.Target) -> tirx.PrimFunc:
    """Schedule `func`, unscheduled TensorIR, on the work items of a target's device.

    The rules and their order are those of TVM's pipeline (`tvm.relax.backend.gpu_generic`). Functions that
    TVM has already scheduled, such as a sort, are returned unchanged.
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
    if func.attrs is not None and "global_symbol" in func.attrs:
        return made.with_attr("global_symbol", func.attrs["global_symbol"])
    return made.without_attr("global_symbol")
