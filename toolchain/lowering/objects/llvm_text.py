"""Edits the text of an LLVM module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tvm

from toolchain.processes.interrupts import uninterrupted


def edited(module: tvm.runtime.Module, edit: Callable[[str], str], folder: Path) -> tvm.runtime.Module:
    """Return a module made from the edited LLVM text of another, with the same imported modules.

    Parameters
    ----------
    edit
        Function from LLVM text to LLVM text.
    folder
        Folder for a temporary file: TVM reads modules only from files.
    """
    text = folder / "edited.ll"
    text.write_text(edit(module.inspect_source("ll")))
    try:
        with uninterrupted():
            made = tvm.runtime.load_module(str(text))
    finally:
        text.unlink()
    for imported in module.imports:
        made.import_module(imported)
    return made
