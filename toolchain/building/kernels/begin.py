"""What a worker does first."""

from __future__ import annotations

import importlib

from toolchain.tvm_import import import_tvm


def begin() -> None:
    """Import what functions are compiled with."""
    import_tvm()
    importlib.import_module("toolchain.building.kernels.compile")
