"""Makes the functions that a network calls by its own names; each calls the object that computes it.

Objects are named by the hash of their content, so that networks, and functions of one network, can share
them. Profiles show the names in the network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import tvm

from toolchain.processes.interrupts import uninterrupted

PREFIX = "__tvm_ffi_"  # of the symbols by which TVM's runtime finds functions
_CORE = re.compile(r'"target-cpu"="[^"]*"(?: "target-features"="[^"]*")?')
_TYPES = "ptr, ptr, i32, ptr"  # TVMFFISafeCallType of tvm/ffi/c_api.h: self, arguments, number, result


def entry_library(symbols: Mapping[str, str], target: tvm.target.Target, folder: Path) -> tvm.runtime.Module:
    """Return an LLVM module with a function for each name.

    Parameters
    ----------
    symbols
        Name in the network -> symbol of the object that computes it.
    folder
        Folder for a temporary file.
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
    group = 1 << 20  # number of the attribute group; TVM's own numbers are small
    lines = [f"attributes #{group} = {{ nounwind {core} }}"]
    # Hidden: the library exports only the network's names.
    lines += [f'declare hidden i32 @"{PREFIX}{symbol}"({_TYPES})' for symbol in sorted({*symbols.values()})]
    for name, symbol in symbols.items():
        lines += [
            f'define dllexport i32 @"{PREFIX}{name}"(ptr %0, ptr %1, i32 %2, ptr %3) #{group} {{',
            f'  %5 = tail call i32 @"{PREFIX}{symbol}"(ptr %0, ptr %1, i32 %2, ptr %3)',
            "  ret i32 %5",
            "}",
        ]
    return lines
