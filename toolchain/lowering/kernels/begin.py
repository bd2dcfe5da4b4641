"""The first call in a worker process."""

from __future__ import annotations

import importlib

from toolchain.imports.tvm_import import import_tvm


def begin() -> None:
    """Import the modules with which functions are compiled."""
    import_tvm()
    importlib.import_module("toolchain.lowering.kernels.compile")
