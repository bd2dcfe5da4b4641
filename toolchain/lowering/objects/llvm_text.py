"""An LLVM module made anew from its text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tvm

from toolchain.processes.interrupts import uninterrupted


def edited(module: tvm.runtime.Module, edit: Callable[[str], str], folder: Path) -> tvm.runtime.Module:
    """Return a module made of the edited LLVM text of another, with the modules that it imports.

    Parameters
    ----------
    edit
        From text to text.
    folder
        For a file that is removed again: TVM reads modules from files alone.
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
