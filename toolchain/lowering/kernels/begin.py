"""What a worker does first."""

from __future__ import annotations

import importlib

from toolchain.imports.tvm_import import import_tvm


def begin() -> None:
    """Import what functions are compiled with."""
    import_tvm()
    importlib.import_module("toolchain.lowering.kernels.compile")
