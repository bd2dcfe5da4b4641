"""The dialect CUDA C++, which NVRTC compiles to machine code when a function is compiled."""

from __future__ import annotations

import importlib
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad

from toolchain import tvm_compat
from toolchain.architectures.table import architecture_of
from toolchain.devices.cuda_architectures import EMULATED, number_of
from toolchain.devices.kernel import CUDA_CPP, Resources
from toolchain.devices.kind import DriverFile
from toolchain.devices.table import driver_file
from toolchain.errors import ToolchainError
from toolchain.lowering.dialects.dialect import Dialect, is_aligned, is_ramp
from toolchain.lowering.dialects.lanes import with_stores_by_lane
from toolchain.lowering.dialects.literals import CUDA_FORMS
from toolchain.lowering.dialects.nvrtc import OPTIONS, compile_cuda, nvrtc_version
from toolchain.lowering.dialects.source import KernelSource, KernelUnit, MachineCode

# Rewrites what TVM writes of vectors and CUDA C++ does not have.
#
# - Vectors in memory must lie at a multiple of their size. TVM writes them wherever numbers lie side by side,
#   as OpenCL's `vload4` takes them: those that may be misaligned become loads and stores of numbers.
# - TVM's generator of CUDA C++ makes a vector of numbers, but not of lanes of several vectors: such shuffles
#   take the numbers out first.


def with_cuda_vectors(module: tvm.IRModule) -> tvm.IRModule:
    """Return a new module of kernels that use vectors as CUDA C++ has them."""
    return tvm.IRModule(
        {name: _cuda_vectors_rewritten(func) for name, func in module.functions.items()}, attrs=module.attrs
    )


def _cuda_vectors_rewritten(func: Any) -> Any:
    def loaded(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
        indices = [mutator.mutate(each) for each in node.indices]
        if _is_aligned(indices):
            return tirx.BufferLoad(node.source, indices)
        each = [tirx.BufferLoad(node.source, place) for place in _places(indices)]
        return tirx.Shuffle(each, list(range(len(each))))

    def stored(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
        value, indices = mutator.mutate(node.value), [mutator.mutate(each) for each in node.indices]
        if _is_aligned(indices):
            return tirx.BufferStore(node.buffer, value, indices)
        vector = tirx.Var("vector", value.ty)
        numbers = [
            tirx.BufferStore(node.buffer, tirx.Shuffle([vector], [lane]), place)
            for lane, place in enumerate(_places(indices))
        ]
        bind: Any = tirx.Bind
        return tirx.SeqStmt([bind(vector, value), *numbers])

    def shuffled(node: Any, mutator: tvm_ffi.StructuralMutator) -> Any:
        vectors, indices = (
            [mutator.mutate(each) for each in node.vectors],
            [int(each) for each in node.indices],
        )
        numbers = [
            tirx.Shuffle([vector], [lane]) if vector.ty.dtype.lanes > 1 else vector
            for vector in vectors
            for lane in range(vector.ty.dtype.lanes)
        ]
        if len(indices) == 1:
            return numbers[indices[0]]
        return tirx.Shuffle([numbers[index] for index in indices], list(range(len(indices))))

    rules = [(tirx.BufferStore, stored), (TensorLoad, loaded), (tirx.Shuffle, shuffled)]
    return func.with_body(tvm_compat.mutated(func.body, rules))


def _is_aligned(indices: list[Any]) -> bool:
    """Return whether it is one number, or a vector whose place is a multiple of its number of lanes."""
    last: Any = indices[-1] if indices else None
    if not is_ramp(last) or int(last.stride) != 1:  # TVM splits vectors of other strides
        return True
    return is_aligned(last)


def _places(indices: list[Any]) -> list[list[Any]]:
    last: Any = indices[-1]
    return [[*indices[:-1], last.base + lane] for lane in range(int(last.lanes))]


# The container of machine code for GPUs that libraries embed; `native/src/cuda` reads it.
#
# All numbers are little-endian:
#
#     "EDGECUDA", u32 version
#     u32 units; of each:
#         u32 kernels; of each: u32 length, name
#         u32 codes; of each: u32 architecture, u32 version of CUDA that compiled it, u64 size, the code
#     u32 length, comment

MAGIC = b"EDGECUDA"
VERSION = 1


def container(units: Sequence[KernelUnit], comment: str) -> bytes:
    """Return the container of the functions' machine code."""
    return b"".join(_pieces(units, comment))


def _pieces(units: Sequence[KernelUnit], comment: str) -> Iterator[bytes]:
    yield MAGIC + struct.pack("<II", VERSION, len(units))
    for unit in units:
        yield struct.pack("<I", len(unit.kernels))
        for kernel in unit.kernels:
            yield _cubins_text(kernel.name)
        yield struct.pack("<I", len(unit.codes))
        for code in unit.codes:
            yield struct.pack("<IIQ", code.architecture, code.compiler, len(code.code)) + code.code
    yield _cubins_text(comment)


def _cubins_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data


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
    return _driver().compiler() if emulated else " ".join(["NVRTC", nvrtc_version(), *OPTIONS])


def _driver() -> DriverFile:
    driver = driver_file("cuda")
    assert driver is not None  # noqa: S101 - the row of CUDA names one
    return driver


def _emulated(source: str, target: tvm.target.Target) -> MachineCode:
    triple = str(target.host.attrs["mtriple"])
    architecture = architecture_of(triple)
    if architecture is None:
        raise ToolchainError(f"the emulated CUDA driver does not run on {triple}")
    calls = _GROUPS.sub(r"edge_cp_async_\1(\2);", source)
    return MachineCode(number_of(EMULATED), 0, _driver().compile_kernels(calls, architecture))


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


CUDA: Dialect = Dialect(
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
