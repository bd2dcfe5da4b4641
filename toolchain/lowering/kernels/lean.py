"""Removes code that TVM adds to every LLVM module, before it becomes an object.

Each module has debug information, and two functions that convert float16 on cores without such instructions.
A library keeps neither: the linker removes debug information and functions that are not called. For a small
function they take half of the time that LLVM needs to write an object.
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
    """Return an LLVM module with the same code, without debug information and unused float16 conversions.

    Parameters
    ----------
    folder
        Folder for a temporary file.
    """
    return edited(module, leaned, folder)


def leaned(text: str) -> str:
    """Return LLVM text without debug information, and without the float16 conversions if no float16 occurs.

    If a function computes with float16, LLVM may call the conversions even if the text does not.
    """
    text = _DEBUG.sub("", text)
    without = _CONVERSION.sub("", text)
    return text if _HALF.search(_DECLARATION.sub("", without)) else without
