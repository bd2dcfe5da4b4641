"""Compiles CUDA C++ with NVRTC, NVIDIA's compiler as a library."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from toolchain.devices.kernel import Resources
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.foreign import first_line, shortened
from toolchain.lowering.dialects.source import MachineCode

_ERROR = re.compile(r"(?m)^.*\berror\s*: (.*)$")  # of the compiler, or of its assembler
# Remarks of ptxas, with the option -v: a line for each kernel, followed by what it needs.
_KERNEL = re.compile(
    r"Compiling entry function '(\w+)' for '\w+'\n(.*?)(?=ptxas info\s*: Compiling|\Z)", re.DOTALL
)
OPTIONS = ("--std=c++17", "--ptxas-options=-v")
"""Options of all units; the latter makes the assembler say what kernels need."""

_NUMBER = re.compile(r"(\d+) (registers|bytes (?:stack frame|spill stores|spill loads|smem))")
_INSTALL = "pip install 'edge-toolchain[cuda]', or `make cuda` in a checkout; or build with --engine docker"
_PARTS = re.compile(r"failed to open (libnvrtc-builtins\S*)|cannot open source file \"(cuda_\w+\.h)\"")


@dataclass(frozen=True)
class Cubin:
    """The machine code of kernels, and what it needs.

    Attributes
    ----------
    resources
        Resources of each kernel, by name.
    """

    code: MachineCode
    resources: Mapping[str, Resources]


def compile_cuda(source: str, architecture: int) -> Cubin:
    """Compile CUDA C++ to machine code.

    Parameters
    ----------
    architecture
        Number of the architecture: 90 for `sm_90`.

    Raises
    ------
    MissingError
        NVRTC is not installed.
    UsageError
        NVRTC does not know the architecture.
    ToolchainError
        NVRTC rejects the source.
    """
    nvrtc, version = _loaded()
    _check_known(nvrtc, version, architecture)
    options = [*OPTIONS, f"--gpu-architecture=sm_{architecture}", f"--include-path={_headers()}"]
    error, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, [], [])
    _check(nvrtc, error, "nvrtcCreateProgram")
    try:
        (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [each.encode() for each in options])
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _rejected(_log(nvrtc, program) or error.name, version, architecture)
        error, size = nvrtc.nvrtcGetCUBINSize(program)
        _check(nvrtc, error, "nvrtcGetCUBINSize")
        code = bytearray(size)
        _check(nvrtc, nvrtc.nvrtcGetCUBIN(program, code)[0], "nvrtcGetCUBIN")
        found = _resources(_log(nvrtc, program), f"sm_{architecture}")
        return Cubin(MachineCode(architecture, version, bytes(code)), found)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _rejected(log: str, version: int, architecture: int) -> ToolchainError:
    if lacking := _PARTS.search(log):
        name = (lacking[1] or lacking[2]).rstrip(".")
        return MissingError(f"NVRTC {_shown(version)} is not installed as a whole: it lacks {name}", _INSTALL)
    return ToolchainError(
        f"NVRTC {_shown(version)} cannot compile a kernel for sm_{architecture}: {_problem(log)}"
    )


def _check_known(nvrtc: Any, version: int, architecture: int) -> None:
    error, known = nvrtc.nvrtcGetSupportedArchs()
    if error == nvrtc.nvrtcResult.NVRTC_SUCCESS and architecture not in known:
        raise UsageError(
            f"NVRTC {_shown(version)} does not know the architecture sm_{architecture}",
            f"it knows: {', '.join(f'sm_{number}' for number in sorted(known))}",
        )


def nvrtc_version() -> str:
    """Return the version of NVRTC, such as `13.0`.

    Raises
    ------
    MissingError
        NVRTC is not installed.
    """
    return _shown(_loaded()[1])


@cache
def _loaded() -> tuple[Any, int]:
    """Return NVRTC and its version: 13000 for CUDA 13.0."""
    try:
        from cuda.bindings import nvrtc  # 600 MB with its compiler, and only builds for CUDA need it

        result, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:  # the latter: its bindings without its library
        raise MissingError(
            f"NVRTC, the compiler of CUDA, is not installed: {first_line(error)}", _INSTALL
        ) from error
    _check(nvrtc, result, "nvrtcVersion")
    return nvrtc, major * 1000 + minor * 10


@cache
def _headers() -> Path:
    """Return the folder of CUDA's headers, such as `cuda_fp16.h`."""
    from importlib.util import find_spec

    spec = find_spec("nvidia")
    folders = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    major = _loaded()[1] // 1000
    theirs = "cuda_runtime" if major == 12 else f"cu{major}"  # wheels of CUDA 12 have a folder each
    found = [path for folder in folders if (path := folder / theirs / "include").is_dir()]
    if not found and (kit := os.environ.get("CUDA_PATH")):  # as in the image cuda
        found = [path for path in [Path(kit) / "include"] if path.is_dir()]
    if not found:
        raise MissingError("the headers of CUDA are not installed", _INSTALL)
    return found[0]


def _log(nvrtc: Any, program: Any) -> str:
    error, size = nvrtc.nvrtcGetProgramLogSize(program)
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return ""
    log = bytearray(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    return bytes(log).decode(errors="replace")


def _problem(log: str) -> str:
    """Return the first error in a compiler's log, or its first line."""
    found = _ERROR.search(log)
    return shortened(found[1] if found else log.partition("\n")[0])


def _resources(log: str, architecture: str) -> dict[str, Resources]:
    """Read the assembler's remarks about each kernel."""
    found = {}
    for name, remarks in _KERNEL.findall(log):
        number = {word: int(value) for value, word in _NUMBER.findall(remarks)}
        found[name] = Resources(
            architecture,
            registers=number["registers"],
            spilled_bytes=number["bytes spill stores"] + number["bytes spill loads"],
            stack_bytes=number["bytes stack frame"],
            local_bytes=number.get("bytes smem", 0),
        )
    return found


def _check(nvrtc: Any, error: Any, call: str) -> None:
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise ToolchainError(f"{call} of NVRTC says {error.name}")


def _shown(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
