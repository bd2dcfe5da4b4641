"""The dialect OpenCL C, which drivers compile on the board."""

from __future__ import annotations

import re

import tvm

from toolchain.devices.language import OPENCL_C
from toolchain.lowering.dialects.addresses import with_running_addresses
from toolchain.lowering.dialects.bytes import with_bytes
from toolchain.lowering.dialects.dialect import Dialect
from toolchain.lowering.dialects.functions import register_functions
from toolchain.lowering.dialects.literals import OPENCL_FORMS
from toolchain.lowering.dialects.opencl_c import corrected
from toolchain.lowering.dialects.truth import with_ones

_MARK = "// Function: "  # before each kernel of a module (tvm/src/backend/opencl/codegen/codegen_opencl.cc)


def _rewritten(module: tvm.IRModule) -> tvm.IRModule:
    return with_ones(with_bytes(module))


def _sections(source: str) -> dict[str, str]:
    found = {}
    for section in source.split(_MARK)[1:]:
        name, _end, text = section.partition("\n")
        found[name] = corrected(text)
    return found


OPENCL = Dialect(
    language=OPENCL_C,
    format="cl",
    hook="tvm_callback_opencl_postproc",  # in the same file as `_MARK`
    definition=re.compile(r"^__kernel void (\w+)\([^;{]*\) \{", re.MULTILINE),
    declaration=re.compile(r"(?m)^__kernel void \w+\([^(){};]*\);\n"),
    forms=OPENCL_FORMS,
    rewritten=_rewritten,
    sections=_sections,
    finished=with_running_addresses,
    prepare=register_functions,
)
