"""Networks that this process runs itself, compiled function by function as for a board."""

from __future__ import annotations

import tvm
from tvm import relax, tirx

from toolchain import tvm_compat
from toolchain.files.scratch import scratch_folder
from toolchain.lowering.graph.pipeline import lower_fused
from toolchain.lowering.kernels.compile import compiled


def executable(scheduled: tvm.IRModule, target: tvm.target.Target) -> tvm.runtime.Executable:
    """Return a network whose functions have been scheduled, compiled for this host's CPU.

    Its functions keep the names that they have in the network.
    """
    lowered = lower_fused(scheduled, target)
    with scratch_folder() as folder:
        parts = [
            compiled(func, target, str(variable.name_hint), folder).host
            for variable, func in lowered.functions.items()
            if isinstance(func, tirx.PrimFunc)
        ]
    for part in parts[1:]:
        parts[0].import_module(part)
    return tvm_compat.link_executable(lowered, target, parts[0] if parts else None)


def virtual_machine(scheduled: tvm.IRModule, target: tvm.target.Target) -> relax.VirtualMachine:
    """Return TVM's virtual machine with a network."""
    return relax.VirtualMachine(executable(scheduled, target), tvm.cpu())


def source(scheduled: tvm.IRModule, target: tvm.target.Target, form: str) -> str:
    """Return the code of a network's functions: LLVM's for `ll`, the core's for `s`."""
    (first,) = executable(scheduled, target).mod.imports
    return "\n".join(module.inspect_source(form) for module in (first, *first.imports))
