"""Kernels of a device: source that the board's driver compiles, and how a library embeds it.

TVM's code generator writes one module for the kernels of a call, and each begins with declarations of all
others. What a driver keeps of its work goes by the source, so a kernel that many networks have would be
compiled again for each. Here each function has its own module, whose text is kept, and a library embeds the
texts as they are.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import tvm
import tvm_ffi
from tvm import tirx
from tvm.runtime import _ffi_api

from toolchain.lowering.kernels.addresses import with_running_addresses
from toolchain.lowering.kernels.bytes import with_bytes
from toolchain.lowering.kernels.literals import with_constants_named, with_constants_written
from toolchain.lowering.kernels.opencl_c import corrected
from toolchain.lowering.kernels.truth import with_ones
from toolchain.lowering.objects.in_memory import object_of

_MARK = "// Function: "  # before each kernel of a module (tvm/src/backend/opencl/codegen/codegen_opencl.cc)
_DEFINITION = re.compile(r"^__kernel void (\w+)\([^;{]*\) \{", re.MULTILINE)
# TVM asks a function of this name what to make of each kernel's text (same file).
_HOOK = "tvm_callback_opencl_postproc"
_EXTENTS = "tirx.kernel_launch_params"
_HOOKED = threading.Lock()


@dataclass(frozen=True)
class Kernel:
    """What a driver compiles, and what it is begun with.

    Attributes
    ----------
    types
        Of its arguments: `handle` for memory of the device, else such as `int32`.
    extents
        What its last arguments are to the launch: `blockIdx.x` …, groups; `threadIdx.x` …, items of a group.
    source
        OpenCL C, with all that it needs.
    """

    name: str
    types: tuple[str, ...]
    extents: tuple[str, ...]
    source: str


def kernels_of(module: tvm.IRModule, target: tvm.target.Target) -> tuple[Kernel, ...]:
    """Return the kernels of lowered device functions."""
    dialect = target.kind.name
    built = tvm.get_global_func(f"target.build.{dialect}")(
        with_constants_named(with_ones(with_bytes(module))), target
    )
    sources = _sections(with_constants_written(str(built.inspect_source("cl")), dialect))
    return tuple(
        Kernel(
            name,
            tuple(_type(parameter) for parameter in func.params),
            tuple(str(extent) for extent in func.attrs[_EXTENTS]),
            with_running_addresses(sources[name]),
        )
        for name, func in sorted((str(func.attrs["global_symbol"]), func) for func in _functions(module))
    )


def device_module(kernels: Sequence[Kernel], target: tvm.target.Target) -> tvm.runtime.Module:
    """Return TVM's module of kernels, for a library to import.

    TVM makes such modules of functions alone. So they are made of empty ones, into whose place the sources
    are put.
    """
    device = tvm.target.Target({key: value for key, value in target.export().items() if key != "host"})
    empty = tvm.IRModule({kernel.name: _empty(kernel, device) for kernel in kernels})
    with _written({kernel.name: kernel.source for kernel in kernels}):
        return tvm.get_global_func(f"target.build.{device.kind.name}")(empty, device)


def device_object(kernels: Sequence[Kernel], target: tvm.target.Target) -> bytes:
    """Return the object of what a library without a network embeds, an ELF file."""
    host = tvm.get_global_func("target.build.llvm")(tvm.IRModule({}), target.host)
    host.import_module(device_module(kernels, target))
    return object_of(_ffi_api.ModulePackImportsToLLVM(host, False, str(target.host), ""))


def to_text(kernels: Iterable[Kernel]) -> str:
    """Return kernels as text, on one line."""
    return json.dumps([asdict(kernel) for kernel in kernels])


def from_text(text: str) -> tuple[Kernel, ...]:
    """Return the kernels that `to_text` wrote."""
    return tuple(
        Kernel(each["name"], tuple(each["types"]), tuple(each["extents"]), each["source"])
        for each in json.loads(text)
    )


def listing(kernels: Sequence[Kernel]) -> str:
    """Return the source of kernels, for people."""
    return "\n".join(kernel.source.strip("\n") for kernel in kernels) + "\n"


def _functions(module: tvm.IRModule) -> list[tirx.PrimFunc]:
    return [func for func in module.functions.values() if isinstance(func, tirx.PrimFunc)]


def _type(parameter: tirx.Var) -> str:
    return "handle" if isinstance(parameter.ty, tvm.ir.PointerType) else str(parameter.ty.dtype)


def _sections(source: str) -> dict[str, str]:
    """Return the source of each kernel of a module."""
    sections = {}
    for section in source.split(_MARK)[1:]:
        name, _end, text = section.partition("\n")
        sections[name] = corrected(text)
    return sections


def _empty(kernel: Kernel, target: tvm.target.Target) -> tirx.PrimFunc:
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
def _written(sources: Mapping[str, str]) -> Iterator[None]:
    """Let TVM write these sources, by the names of kernels, within the block."""

    def source_of(code: str, _target: tvm.target.Target) -> str:
        (name,) = _DEFINITION.findall(code)
        return sources[name]

    with _HOOKED:
        tvm_ffi.register_global_func(_HOOK, source_of, override=True)
        try:
            yield
        finally:
            tvm_ffi.registry.remove_global_func(_HOOK)
