"""CUDA C++ as TVM writes it. The library embeds the source, which a compiler for the GPU would replace."""

from __future__ import annotations

import importlib
import re

import tvm

from tests.imaginary_cuda.language import CUDA_CPP
from toolchain.lowering.kernels.dialect import Dialect
from toolchain.lowering.kernels.literals import CUDA_FORMS

_KERNEL = r'extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\([^;{]*\)'
DECLARATION = re.compile(rf"(?m)^{_KERNEL};\n")
DEFINITION = re.compile(rf"(?m)^{_KERNEL} \{{")


def prepare() -> None:
    """Register what TVM's generator for CUDA asks for its headers."""
    importlib.import_module("tvm.backend.cuda.codegen")


def sections(source: str) -> dict[str, str]:
    """Return each kernel with what stands before the first."""
    plain = DECLARATION.sub("", source)
    begins = [*DEFINITION.finditer(plain)]
    head = plain[: begins[0].start()] if begins else ""
    ends = [*(begin.start() for begin in begins[1:]), len(plain)]
    return {begin[1]: head + plain[begin.start() : end] for begin, end in zip(begins, ends, strict=True)}


def as_it_is(module: tvm.IRModule) -> tvm.IRModule:
    return module


DIALECT = Dialect(
    language=CUDA_CPP,
    format="cuda",
    hook="tvm_callback_cuda_compile",
    definition=DEFINITION,
    declaration=DECLARATION,
    forms=CUDA_FORMS,
    rewritten=as_it_is,
    sections=sections,
    finished=str.strip,
    prepare=prepare,
)
