"""Schedules for functions without a record, on devices that run work items: DLight's, of TVM.

They were made for larger GPUs: sums are staged in local memory behind barriers, and convolutions load one
number at a time. They make networks usable; they do not compete with tuned code.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from toolchain.lowering.functions.definition import MAIN, module_of

_SCHEDULED = "tirx.is_scheduled"  # TVM's own mark


def device_schedule(func: tirx.PrimFunc, target: tvm.target.Target) -> tirx.PrimFunc:
    """Return `func`, unscheduled TensorIR, with its loops on the work items of a target's device.

    The rules are those of TVM's own pipeline (`tvm.relax.backend.gpu_generic`), in its order; one that TVM
    has scheduled already, such as a sort, stays as it is.
    """
    from tvm.s_tir import dlight  # half a second, and CPUs do without

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
