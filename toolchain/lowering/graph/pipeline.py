"""The Relax passes, in the two halves between which schedules are chosen."""

from __future__ import annotations

import tvm
from tvm import relax

from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.lowering.graph.confined import CONFINED
from toolchain.lowering.graph.constants import fold_constants
from toolchain.lowering.graph.scans import with_scans_moved
from toolchain.processes.interrupts import uninterrupted


def fuse(module: tvm.IRModule, target: tvm.target.Target, layout: str = "NCHW") -> tvm.IRModule:
    """Return the network as calls of fused, unscheduled TensorIR functions.

    Parameters
    ----------
    module
        Relax, parameters as constants, one function `main`.
    layout
        Of convolutions: NCHW or NHWC. The weights of NHWC lie with their output channels last where a
        device computes, along which its code loads vectors, and on CPUs first.
    """
    fold = tvm.transform.module_pass(lambda unfolded, _: fold_constants(unfolded), opt_level=0, name="fold")
    passes = [
        relax.transform.FoldBatchnormToConv2D(),
        fold,
        relax.transform.DecomposeOpsForInference(),
        fold,
    ]
    if layout == "NHWC":
        weights = "OHWI" if target.host is None else "HWIO"
        passes += [relax.transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", weights]}), fold]
    if target.host is not None:
        passes.append(
            tvm.transform.module_pass(lambda seen, _: with_scans_moved(seen), opt_level=0, name="scans")
        )
    passes += [
        relax.backend.DispatchSampling(),
        relax.backend.DispatchSortScan(),
        relax.transform.LegalizeOps(CONFINED),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        # A reshape becomes a view here: it is no function to schedule, and no task.
        relax.transform.RewriteDataflowReshape(),
        relax.transform.DeadCodeElimination(),
    ]
    return _run(passes, module, target)


def lower_fused(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Lower what `fuse` returned, its functions scheduled by now, to what TVM's virtual machine runs."""
    rest = [
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
        relax.transform.LowerAllocTensor(),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        relax.transform.VMShapeLower(),
        relax.transform.AttachGlobalSymbol(),
    ]
    return _run(rest, module, target)


def _run(passes: list[tvm.transform.Pass], module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    try:
        with uninterrupted(), target:
            return tvm.transform.Sequential(passes)(module)
    except (ValueError, TypeError, RuntimeError) as error:  # TVM's own are RuntimeErrors
        raise ToolchainError(f"TVM cannot lower the network: {first_line(error)}") from error
