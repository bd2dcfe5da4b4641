"""Metal as TVM writes it. The library embeds the source, which the driver would compile."""

from __future__ import annotations

import re

import tvm

from tests.imaginary_metal.language import METAL_CPP
from toolchain.lowering.dialects.dialect import Dialect
from toolchain.lowering.dialects.literals import OPENCL_FORMS

_MARK = "// Function: "  # before each kernel (tvm/src/backend/metal/codegen)


def sections(source: str) -> dict[str, str]:
    """Return each kernel, which begins with its own header."""
    named = (section.partition("\n") for section in source.split(_MARK)[1:])
    return {name: text for name, _end, text in named}


def as_it_is(module: tvm.IRModule) -> tvm.IRModule:
    return module


def nothing() -> None:
    """TVM needs no preparation for Metal."""


DIALECT = Dialect(
    language=METAL_CPP,
    format="metal",
    hook="tvm_callback_metal_compile",
    definition=re.compile(r"(?m)^kernel void (\w+)\("),
    declaration=re.compile(r"(?m)^kernel void \w+\([^(){};]*\);\n"),
    forms=OPENCL_FORMS,
    rewritten=as_it_is,
    sections=sections,
    finished=str.strip,
    prepare=nothing,
)
