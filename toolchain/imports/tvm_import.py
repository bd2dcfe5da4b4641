"""Imports TVM in half the usual time.

Of 0.9 s, 0.3 went into the traceback of an error that TVM raises and catches itself (it reads the symbols
of 260 MB of library), 0.2 into listing all of its functions fifty times, and 0.1 into backends of devices
that we do not use. Checked with apache-tvm 0.27.0.post1.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

_BACKENDS = "TVM_DEVICE_BACKEND_AUTOLOAD"
_DISCO = "tvm.runtime.disco"


def import_tvm() -> None:
    """Import TVM without its GPU backends; do nothing if it is imported already."""
    if "tvm" in sys.modules:
        return
    from tvm_ffi import libinfo, registry

    with contextlib.ExitStack() as stack:
        # TVM tries to import its distributed runtime, fails after 0.3 s and goes on; None fails at once.
        stack.enter_context(_replaced(sys.modules, _DISCO, None))
        stack.enter_context(_replaced(os.environ, _BACKENDS, os.environ.get(_BACKENDS, "0")))
        listed = _listed_once(registry.list_global_func_names)
        stack.enter_context(_replaced(vars(registry), "list_global_func_names", listed))
        importlib.import_module("tvm")
    with contextlib.suppress(OSError, RuntimeError):  # has sort and random functions; TVM works without
        from tvm.libinfo import package_lib_paths

        libinfo.load_lib_ctypes("tvm", "tvm_runtime_extra", "RTLD_LOCAL", extra_lib_paths=package_lib_paths())


@contextlib.contextmanager
def _replaced(table: Any, key: str, value: object) -> Iterator[None]:
    before = table.get(key)
    table[key] = value
    try:
        yield
    finally:
        if before is None:
            del table[key]
        else:
            table[key] = before


def _listed_once(listing: Callable[[], list[str]]) -> Callable[[], list[str]]:
    """Cache TVM's list of functions until their number changes."""
    from tvm_ffi import get_global_func

    names: list[str] = []

    def listed() -> list[str]:
        if len(names) != get_global_func("ffi.FunctionListGlobalNamesFunctor")()(-1):
            names[:] = listing()
        return names

    return listed
