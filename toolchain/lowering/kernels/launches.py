"""Finds the kernels that a scheduled function launches on a device, with their launch extents."""

from __future__ import annotations

from math import prod

import tvm
import tvm_ffi
from tvm import tirx

from toolchain.devices.kernel import Extents, Kernel
from toolchain.devices.table import with_kernels
from toolchain.errors import UsageError
from toolchain.lowering.dialects.table import dialect_of
from toolchain.lowering.functions.definition import MAIN
from toolchain.lowering.kernels import device
from toolchain.lowering.kernels.compile import lower


def launches_of(func: tirx.PrimFunc, target: tvm.target.Target, symbol: str = MAIN) -> list[Kernel]:
    """Return the kernels of a scheduled function, sorted by name.

    Parameters
    ----------
    target
        TVM target of a device, with a host.
    symbol
        Prefix of the kernels' names.

    Raises
    ------
    UsageError
        It launches none, because it is code for a CPU.
    ValueError, TypeError, RuntimeError
        TVM cannot compile it.
    """
    functions = lower(func, target, symbol)[0].device
    if functions is None:
        raise UsageError("this code is for a CPU: it has no kernels", with_kernels())
    dialect = dialect_of(target)
    lowered_kernels = {str(each.attrs["global_symbol"]): each for each in functions.functions.values()}
    kernels = device.kernels_of(functions, target)
    resources = dialect.resources(kernels, target) if dialect.resources else {}
    return [
        Kernel(
            kernel.name,
            dialect.declaration.sub("", kernel.source),
            *_launch(lowered_kernels[kernel.name]),
            _arguments(lowered_kernels[kernel.name]),
            dialect.language,
            resources.get(kernel.name, ()),
        )
        for kernel in kernels
    ]


def _launch(kernel: tirx.PrimFunc) -> tuple[Extents, Extents]:
    """Return the numbers of work items in a work group, and of work groups, in three dimensions."""
    extents: dict[str, int] = {}

    def note(statement: tirx.AttrStmt) -> None:
        if statement.attr_key == "thread_extent":
            extents[statement.node.thread_tag] = int(statement.value)

    tvm_ffi.structural_walk(kernel.body, [(tirx.AttrStmt, note)])
    return _three(extents, "threadIdx"), _three(extents, "blockIdx")


def _three(extents: dict[str, int], kind: str) -> Extents:
    return extents.get(f"{kind}.x", 1), extents.get(f"{kind}.y", 1), extents.get(f"{kind}.z", 1)


def _arguments(kernel: tirx.PrimFunc) -> tuple[int, ...]:
    """Return the sizes in bytes of a kernel's buffer arguments."""
    sizes: dict[tirx.Var, int] = {}

    def note(statement: tirx.DeclBuffer) -> None:
        buffer = statement.buffer
        dtype = tvm.DataType(buffer.dtype)
        sizes[statement.data] = prod(int(extent) for extent in buffer.shape) * dtype.bits * dtype.lanes // 8

    tvm_ffi.structural_walk(kernel.body, [(tirx.DeclBuffer, note)])
    return tuple(sizes[parameter] for parameter in kernel.params if parameter in sizes)
