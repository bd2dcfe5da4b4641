"""What code needs of the program that runs it."""

from __future__ import annotations

import tvm
from tvm import relax

from toolchain.bundles.manifest import RuntimeNeeds
from toolchain.targets.target import BoardTarget

OURS = "edge."
"""What names of edge-rt's own packed functions begin with; every edge-rt has those of TVM's runtime."""


def needs_of(target: BoardTarget, module: tvm.IRModule) -> RuntimeNeeds:
    """Return what a network needs of the program that runs it.

    A device, if one computes, and the functions of edge-rt that the network calls.
    """
    called: set[str] = set()

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.ExternFunc) and str(node.global_symbol).startswith(OURS):
            called.add(str(node.global_symbol))

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    devices = (target.limits.kind,) if target.limits else ()
    return RuntimeNeeds(devices=devices, functions=tuple(sorted(called)))
