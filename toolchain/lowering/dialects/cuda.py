"""The dialect CUDA C++, which NVRTC compiles to machine code when a function is compiled."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import tvm
import tvm_ffi

from toolchain.architectures.table import architecture_of
from toolchain.devices.cuda_architectures import EMULATED, number_of
from toolchain.devices.kernel import Resources
from toolchain.devices.language import CUDA_CPP
from toolchain.emulated_cuda import compile_emulated
from toolchain.errors import ToolchainError
from toolchain.lowering.dialects.cubins import container
from toolchain.lowering.dialects.cuda_vectors import with_cuda_vectors
from toolchain.lowering.dialects.dialect import Dialect
from toolchain.lowering.dialects.lanes import with_stores_by_lane
from toolchain.lowering.dialects.literals import CUDA_FORMS
from toolchain.lowering.dialects.nvrtc import OPTIONS, compile_cuda, nvrtc_version
from toolchain.lowering.dialects.source import KernelSource, MachineCode
from toolchain.runtime.fingerprint import package_version

_KERNEL = r'extern "C" __global__ void (?:__launch_bounds__\(\d+(?:, 1)?\) )?(\w+)\([^;{]*\)'
_DECLARATION = re.compile(rf"(?m)^{_KERNEL};\n")
_DEFINITION = re.compile(rf"(?m)^{_KERNEL} \{{")

# TVM's own header includes libraries that take NVRTC 1.3 s to read, where a kernel takes 0.3 s.
_TYPES = """typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
#ifdef __CUDACC_RTC__
typedef long long int64_t;
typedef unsigned long long uint64_t;
#endif
"""
_BOUNDS = re.compile(r"__launch_bounds__\((\d+)\)")
# Private arrays of more bytes than a thread has registers lie in memory. If NVRTC unrolls a loop over them,
# it tries registers nevertheless, and spills.
_REGISTER_BYTES = 1020
_LONG_LOOP = re.compile(
    r"(?m)(?<!#pragma unroll\n)^([ \t]*)(for \(int (\w+) = 0; \3 < (?:1[7-9]|[2-9]\d|\d{3,}); \+\+\3\))"
)
# Headers of this folder that a source begins with where it calls what they have.
_HEADERS = {"bytes.cuh": re.compile(r"\bmake_u?int\("), "warp.cuh": re.compile(r"\bedge_\w+\(")}
# What TVM's generator writes for groups of asynchronous copies, as instructions of NVIDIA's.
_GROUPS = re.compile(r'asm volatile\("cp\.async\.(commit|wait)_group ?(\d*);"[^;]*\);')


def _header(tags: Iterable[str]) -> str:
    """Return what a source begins with, given TVM's words for what it uses."""
    return _TYPES + (_text("half.cuh") if "fp16" in map(str, tags) else "")


def _prepare() -> None:
    """Register what TVM's generator of CUDA C++ calls, with a header of our own."""
    importlib.import_module("tvm.backend.cuda.codegen")
    tvm_ffi.register_global_func("tirx.intrinsics.cuda.header_generator", _header, override=True)


@cache
def _text(name: str) -> str:
    """Return a header of this folder, which kernels begin with where they need it."""
    return Path(__file__).with_name(name).read_text()


def _sections(source: str) -> dict[str, str]:
    """Return the complete source of each kernel: what precedes the first one belongs to all."""
    plain = _DECLARATION.sub("", source)
    begins = [*_DEFINITION.finditer(plain)]
    head = plain[: begins[0].start()] if begins else ""
    head += "".join(_text(name) for name, called in _HEADERS.items() if called.search(plain))
    ends = [*(begin.start() for begin in begins[1:]), len(plain)]
    return {begin[1]: head + plain[begin.start() : end] for begin, end in zip(begins, ends, strict=True)}


def _rewritten(module: tvm.IRModule) -> tvm.IRModule:
    return with_cuda_vectors(with_stores_by_lane(module))


def _finished(source: str) -> str:
    """Return the final source.

    One group on a unit is enough: else the assembler spills registers so that more groups fit.
    """
    bounded = _BOUNDS.sub(r"__launch_bounds__(\1, 1)", source)
    if CUDA_CPP.private_bytes(bounded) <= _REGISTER_BYTES:
        return bounded
    return _LONG_LOOP.sub(r"\1#pragma unroll 1\n\1\2", bounded)


def _architectures(target: tvm.target.Target) -> list[str]:
    return [key for key in map(str, target.keys) if key not in ("cuda", "gpu")]


def _machine_code(kernels: Sequence[KernelSource], target: tvm.target.Target) -> tuple[MachineCode, ...]:
    """Compile the kernels of a function together, for each architecture of a target."""
    source = joined(kernel.source for kernel in kernels)
    return tuple(
        _emulated(source, target) if name == EMULATED else compile_cuda(source, number_of(name)).code
        for name in _architectures(target)
    )


def _compilers(target: tvm.target.Target) -> str:
    """Return the compilers that `_machine_code` calls."""
    names = {_compiler(name == EMULATED) for name in _architectures(target)}
    return ", ".join(sorted(names))


def _compiler(emulated: bool) -> str:
    return (
        f"ziglang {package_version('ziglang')}"
        if emulated
        else " ".join(["NVRTC", nvrtc_version(), *OPTIONS])
    )


def _emulated(source: str, target: tvm.target.Target) -> MachineCode:
    triple = str(target.host.attrs["mtriple"])
    architecture = architecture_of(triple)
    if architecture is None:
        raise ToolchainError(f"the emulated CUDA driver does not run on {triple}")
    calls = _GROUPS.sub(r"edge_cp_async_\1(\2);", source)
    return MachineCode(number_of(EMULATED), 0, compile_emulated(calls, architecture))


def _resources(
    kernels: Sequence[KernelSource], target: tvm.target.Target
) -> Mapping[str, tuple[Resources, ...]]:
    source = joined(kernel.source for kernel in kernels)
    cubins = [compile_cuda(source, number_of(name)) for name in _architectures(target) if name != EMULATED]
    return {kernel.name: tuple(cubin.resources[kernel.name] for cubin in cubins) for kernel in kernels}


def joined(sources: Iterable[str]) -> str:
    """Return one source with several kernels, and what precedes them once."""
    heads: dict[str, None] = {}
    bodies = []
    for source in sources:
        begin = _DEFINITION.search(source)
        start = begin.start() if begin else 0
        heads[source[:start]] = None
        bodies.append(source[start:])
    return "".join([*heads, *bodies])


CUDA = Dialect(
    language=CUDA_CPP,
    format="cuda",
    hook="tvm_callback_cuda_postproc",  # tvm/src/backend/cuda/codegen
    definition=_DEFINITION,
    declaration=_DECLARATION,
    forms=CUDA_FORMS,
    rewritten=_rewritten,
    sections=_sections,
    finished=_finished,
    prepare=_prepare,
    machine_code=_machine_code,
    compilers=_compilers,
    resources=_resources,
    container=container,
)
