"""The functions that a network calls by its own names: each goes on to the object that computes it.

An object is named by its content, so that networks can share it, and two functions of a network, too. The
names that people see in a profile are the network's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import tvm

from toolchain.processes.interrupts import uninterrupted

PREFIX = "__tvm_ffi_"  # of the symbols that TVM's runtime looks functions up by
_CORE = re.compile(r'"target-cpu"="[^"]*"(?: "target-features"="[^"]*")?')
_TYPES = "ptr, ptr, i32, ptr"  # TVMFFISafeCallType of tvm/ffi/c_api.h: itself, arguments, how many, result


def entry_library(symbols: Mapping[str, str], target: tvm.target.Target, folder: Path) -> tvm.runtime.Module:
    """Return the LLVM module with a function for each name.

    Parameters
    ----------
    symbols
        Name -> which object's function it is.
    folder
        For a file that is removed again.
    """
    empty = tvm.get_global_func("target.build.llvm")(tvm.IRModule({}), target).inspect_source("ll")
    core = _CORE.search(empty)
    text = folder / "entries.ll"
    text.write_text("\n".join([empty, *_lines(symbols, core[0] if core else "")]))
    try:
        with uninterrupted():
            return tvm.runtime.load_module(str(text))
    finally:
        text.unlink()


def _lines(symbols: Mapping[str, str], core: str) -> list[str]:
    group = 1 << 20  # of attributes; TVM's own are few
    lines = [f"attributes #{group} = {{ nounwind {core} }}"]
    # Hidden: the library offers the network's names alone.
    lines += [f'declare hidden i32 @"{PREFIX}{symbol}"({_TYPES})' for symbol in sorted({*symbols.values()})]
    for name, symbol in symbols.items():
        lines += [
            f'define dllexport i32 @"{PREFIX}{name}"(ptr %0, ptr %1, i32 %2, ptr %3) #{group} {{',
            f'  %5 = tail call i32 @"{PREFIX}{symbol}"(ptr %0, ptr %1, i32 %2, ptr %3)',
            "  ret i32 %5",
            "}",
        ]
    return lines
