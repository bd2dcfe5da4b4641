"""Code without what TVM adds to every module of LLVM's, before it becomes an object.

Each has two functions that convert float16 for cores without an instruction for it, and debug information. A
library keeps neither: the linker removes functions that nobody calls, and all debug information. For a small
function they are half of what LLVM takes to write an object.
"""

from __future__ import annotations

import re
from pathlib import Path

import tvm

from toolchain.lowering.objects.llvm_text import edited

_CONVERSION = re.compile(r"^define .* @__(?:truncsfhf2|extendhfsf2)\(.*\{\n(?s:.*?)^\}\n", re.MULTILINE)
_DECLARATION = re.compile(r"^declare .*\n", re.MULTILINE)
_HALF = re.compile(r"\bhalf\b")
# Records of variables, the compile unit, and attachments of lines to instructions and functions.
_DEBUG = re.compile(r"^ *#dbg_.*\n|^!llvm\.dbg\.cu = .*\n|,? !dbg !\d+", re.MULTILINE)


def lean(module: tvm.runtime.Module, folder: Path) -> tvm.runtime.Module:
    """Return an LLVM module that makes the same code, without the rest.

    Parameters
    ----------
    folder
        For a file that is removed again.
    """
    return edited(module, leaned, folder)


def leaned(text: str) -> str:
    """Return LLVM's text without debug information, and without the conversions of float16 if nothing is one.

    Where a function computes with float16, LLVM calls the conversions though the text may not.
    """
    text = _DEBUG.sub("", text)
    without = _CONVERSION.sub("", text)
    return text if _HALF.search(_DECLARATION.sub("", without)) else without
