"""The Relax passes in two parts: before and after the functions are scheduled."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax

from toolchain import tvm_compat
from toolchain.devices.table import find_kind
from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.lowering.graph.confined import CONFINED
from toolchain.lowering.graph.constants import fold_constants
from toolchain.processes.interrupts import uninterrupted

# Rewrites running sums along the last axis to a form that a device can compute.


def with_scans_moved(module: tvm.IRModule) -> tvm.IRModule:
    """Return a new module in which running sums along the last axis run along the one before it.

    For the last axis of a tensor on a device, TVM uses a function whose workspace has no static size, so its
    memory cannot be planned. For other axes it uses one with a static size. No data is moved: the tensor is
    reshaped to have another axis of extent 1 at the end.
    """
    made = module.clone()
    for variable, func in module.functions_items():
        if isinstance(func, relax.Function):
            made.update_func(variable, _Scans(made).visit_expr(func))
    return made


@relax.expr_functor.mutator
class _Scans(relax.PyExprMutator):  # type: ignore[misc]
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        made = super().visit_call_(call)
        if not isinstance(made.op, tvm.ir.Op) or made.op.name != "relax.cumsum":
            return made
        shape = [int(extent) for extent in call.ty.shape]
        if made.attrs.axis is None or int(made.attrs.axis) not in (-1, len(shape) - 1):
            return made
        seen = relax.op.reshape(made.args[0], (math.prod(shape[:-1]), shape[-1], 1))
        summed = relax.op.cumsum(seen, axis=1, dtype=made.attrs.dtype, exclusive=made.attrs.exclusive)
        return relax.op.reshape(summed, shape)


# TVM takes functions with this prefix for what runs on the host.
_NO_KERNEL = "vm.builtin."


def fuse(module: tvm.IRModule, target: tvm.target.Target, layout: str = "NCHW") -> tvm.IRModule:
    """Lower a network to calls of fused, unscheduled TensorIR functions.

    Parameters
    ----------
    module
        Relax module with one function `main` and parameters as constants.
    layout
        Layout of convolutions: NCHW or NHWC. With NHWC, weights have their output channels last for devices,
        whose code loads vectors along them, and first for CPUs.
    """
    fold = tvm.transform.module_pass(lambda unfolded, _: fold_constants(unfolded), opt_level=0, name="fold")
    passes = [
        # Exporters write a group norm of as many groups as channels with reshapes to the shape that there
        # is. A reshape wants its value plain: it would be unpacked before the norm and packed after it.
        relax.transform.RemoveRedundantReshape(),
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
        # A reshape becomes a view here, so it is neither a function to schedule nor a task.
        relax.transform.RewriteDataflowReshape(),
        relax.transform.DeadCodeElimination(),
    ]
    return _run(passes, module, target)


def lower_fused(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Lower the scheduled result of `fuse` to the form that TVM's virtual machine runs."""
    rest = [
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
        *_graph(target),
        relax.transform.LowerAllocTensor(),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        relax.transform.VMShapeLower(),
        relax.transform.AttachGlobalSymbol(),
    ]
    return _run(rest, module, target)


def _graph(target: tvm.target.Target) -> list[tvm.transform.Pass]:
    """Return the pass after which edge-rt can capture a network as a graph, if its device has graphs.

    The pass moves kernels whose memory is the same in each run into functions of their own: all but those
    that read the network's inputs or write its outputs. Functions of edge-rt check values on the host in each
    run; the pass takes them for kernels unless their names are like those of TVM's own.
    """
    row = find_kind(str(target.kind.name))
    if row is None or not row.graph:
        return []

    def rewrite(module: tvm.IRModule, _context: object) -> tvm.IRModule:
        with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):  # or it does nothing
            rewritten = relax.transform.RewriteCUDAGraph()(_renamed(module, "", _NO_KERNEL))
        return _renamed(rewritten, _NO_KERNEL, "")

    return [tvm.transform.module_pass(rewrite, opt_level=0, name="graph")]


def _renamed(module: tvm.IRModule, before: str, after: str) -> tvm.IRModule:
    """Return a module that calls edge-rt's functions by names with another prefix."""

    def renamed(function: Any, _mutator: Any) -> Any:
        name = str(function.global_symbol)
        if not name.startswith(before + "edge."):
            return function
        return relax.ExternFunc(after + name.removeprefix(before))

    functions = dict(module.functions.items())
    for name, func in functions.items():
        if isinstance(func, relax.Function):
            functions[name] = tvm_compat.mutated(func, [(relax.ExternFunc, renamed)])
    return tvm.IRModule(functions, attrs=module.attrs)


def _run(passes: list[tvm.transform.Pass], module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    try:
        with uninterrupted(), target:
            return tvm.transform.Sequential(passes)(module)
    except (ValueError, TypeError, RuntimeError) as error:  # TVM's own are RuntimeErrors
        raise ToolchainError(f"TVM cannot lower the network: {first_line(error)}") from error
