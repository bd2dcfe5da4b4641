"""`import tvm` in half of its time, for programs that begin with it.

Of its 0.9 s, 0.3 went into the trace of an error that TVM makes and catches itself (symbols of 260 MB of
library are read for that), 0.2 into listing all of its functions fifty times, and 0.1 into other devices'
backends. Checked with apache-tvm 0.27.0.post1.
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
    """Import TVM without its backends for GPUs; nothing where it is imported already."""
    if "tvm" in sys.modules:
        return
    from tvm_ffi import libinfo, registry

    with contextlib.ExitStack() as stack:
        # Without a library that is not loaded yet, this fails anyway, at length; TVM goes on without.
        stack.enter_context(_replaced(sys.modules, _DISCO, None))
        stack.enter_context(_replaced(os.environ, _BACKENDS, os.environ.get(_BACKENDS, "0")))
        listed = _listed_once(registry.list_global_func_names)
        stack.enter_context(_replaced(vars(registry), "list_global_func_names", listed))
        importlib.import_module("tvm")
    with contextlib.suppress(OSError, RuntimeError):  # sorting and random numbers; TVM does without, too
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
    """Return a list of TVM's functions that is made again when there are more of them."""
    from tvm_ffi import get_global_func

    names: list[str] = []

    def listed() -> list[str]:
        if len(names) != get_global_func("ffi.FunctionListGlobalNamesFunctor")()(-1):
            names[:] = listing()
        return names

    return listed
