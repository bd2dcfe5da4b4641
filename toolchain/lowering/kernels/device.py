"""Generates the source of device kernels, and embeds it or its machine code in libraries.

TVM's code generator writes one module for all kernels of a call, and each kernel begins with declarations of
all others. Drivers cache compiled kernels by their source, so a kernel shared by many networks would be
compiled again for each. Here each function has its own module, whose text is cached, and a library embeds the
texts unchanged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import tvm
import tvm_ffi
from tvm import tirx
from tvm.runtime import _ffi_api

from toolchain.errors import MissingError
from toolchain.lowering.dialects.dialect import Dialect
from toolchain.lowering.dialects.literals import with_constants_named, with_constants_written
from toolchain.lowering.dialects.source import KernelSource, KernelUnit
from toolchain.lowering.dialects.table import dialect_of
from toolchain.lowering.objects.export import object_of

_EXTENTS = "tirx.kernel_launch_params"
_COMMENT = "names"  # a kernel that is only a comment; it is never launched, so no driver compiles it
_HOOKED = threading.Lock()


def kernels_of(module: tvm.IRModule, target: tvm.target.Target) -> tuple[KernelSource, ...]:
    """Generate the kernels of lowered device functions."""
    dialect = dialect_of(target)
    named = with_constants_named(dialect.rewritten(module))
    with _embedding(dialect, lambda code: code):
        built = tvm.get_global_func(f"target.build.{target.kind.name}")(named, target)
    source = with_constants_written(str(built.inspect_source(dialect.format)), dialect.forms)
    sources = dialect.sections(source)
    return tuple(
        KernelSource(
            name,
            tuple(_type(parameter) for parameter in func.params),
            tuple(str(extent) for extent in func.attrs[_EXTENTS]),
            dialect.finished(sources[name]),
        )
        for name, func in sorted((str(func.attrs["global_symbol"]), func) for func in _functions(module))
    )


def unit_of(kernels: tuple[KernelSource, ...], target: tvm.target.Target) -> KernelUnit:
    """Return the kernels of a function with their machine code, if the dialect has a compiler.

    Raises
    ------
    ToolchainError
        The compiler rejects them, or is missing (MissingError).
    """
    machine_code = dialect_of(target).machine_code if kernels else None
    return KernelUnit(kernels, machine_code(kernels, target) if machine_code else ())


def compilers_of(target: tvm.target.Target) -> str:
    """Return the compilers of a target's kernels and their versions, on which cached objects depend.

    Empty where drivers compile, or no compiler is installed.
    """
    compilers = dialect_of(target).compilers if target.host is not None else None
    try:
        return compilers(target) if compilers else ""
    except MissingError:
        return ""


def device_module(
    units: Sequence[KernelUnit], target: tvm.target.Target, comment: str = ""
) -> tvm.runtime.Module:
    """Return a TVM module of kernels that a library imports.

    TVM makes such modules only from functions. So this makes one from empty functions, and replaces what it
    embeds.

    Parameters
    ----------
    comment
        Text for readers of the library's bytes, in the comment syntax of the dialect.
    """
    device = tvm.target.Target({key: value for key, value in target.export().items() if key != "host"})
    dialect = dialect_of(device)
    kernels = [kernel for unit in units for kernel in unit.kernels]
    if dialect.container is None and comment:
        kernels.append(KernelSource(_COMMENT, (), (), comment))
    empty = tvm.IRModule({kernel.name: _empty(kernel, device) for kernel in kernels})
    sources = {kernel.name: kernel.source for kernel in kernels}

    def embedded(code: str) -> str | bytes:
        if dialect.container is not None:
            return dialect.container(units, comment)
        return "\n".join(sources[name] for name in dialect.definition.findall(code))

    with _embedding(dialect, embedded):
        return tvm.get_global_func(f"target.build.{device.kind.name}")(empty, device)


def device_object(units: Sequence[KernelUnit], target: tvm.target.Target) -> bytes:
    """Return the ELF object with the kernels that a library without a network embeds."""
    host = tvm.get_global_func("target.build.llvm")(tvm.IRModule({}), target.host)
    host.import_module(device_module(units, target))
    return object_of(_ffi_api.ModulePackImportsToLLVM(host, False, str(target.host), ""))


def listing(kernels: Sequence[KernelSource]) -> str:
    """Return the source of kernels as readable text."""
    return "\n".join(kernel.source.strip("\n") for kernel in kernels) + "\n"


def _functions(module: tvm.IRModule) -> list[tirx.PrimFunc]:
    return [func for func in module.functions.values() if isinstance(func, tirx.PrimFunc)]


def _type(parameter: tirx.Var) -> str:
    return "handle" if isinstance(parameter.ty, tvm.ir.PointerType) else str(parameter.ty.dtype)


def _empty(kernel: KernelSource, target: tvm.target.Target) -> tirx.PrimFunc:
    params = [tirx.Var(f"p{place}", dtype) for place, dtype in enumerate(kernel.types)]
    func = tirx.PrimFunc(params, tirx.Evaluate(0))
    attributes = {
        "global_symbol": kernel.name,
        "calling_conv": 2,  # CallingConv::kDeviceKernelLaunch of tvm/ir/function.h
        "target": target,
        "tirx.is_global_func": True,
        _EXTENTS: list(kernel.extents),
    }
    for key, value in attributes.items():
        func = func.with_attr(key, value)
    return func


@contextmanager
def _embedding(dialect: Dialect, text_of: Callable[[str], str | bytes]) -> Iterator[None]:
    """Make TVM embed the result of `text_of` for each generated source, within the block."""

    def embedded(code: str, _target: tvm.target.Target) -> str | bytes:
        return text_of(code)

    with _HOOKED:
        before = tvm.get_global_func(dialect.hook, allow_missing=True)
        tvm_ffi.register_global_func(dialect.hook, embedded, override=True)
        try:
            yield
        finally:
            if before is None:
                tvm_ffi.registry.remove_global_func(dialect.hook)
            else:
                tvm_ffi.register_global_func(dialect.hook, before, override=True)
