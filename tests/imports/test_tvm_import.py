"""TVM, imported sooner, is the same but for other devices' backends."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

_NAMES = """
import json, os, sys
import tvm, tvm_ffi.registry
modules = {name: sorted(vars(module)) for name, module in sys.modules.items()
           if name.endswith("._ffi_api") and name.startswith("tvm.")}
print(json.dumps([modules, sorted(tvm_ffi.registry.list_global_func_names()), sorted(os.environ)]))
"""


def said(before: str) -> list[object]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TVM_")}
    ended = subprocess.run(
        [sys.executable, "-c", before + _NAMES], capture_output=True, check=True, text=True, env=environment
    )
    return list(json.loads(ended.stdout))


@pytest.mark.slow
def test_the_same_functions_are_there() -> None:
    modules, functions, environment = said(
        "from toolchain.imports.tvm_import import import_tvm; import_tvm()"
    )
    all_modules, all_functions, same_environment = said("")
    assert environment == same_environment
    assert isinstance(modules, dict)
    assert isinstance(all_modules, dict)
    # A failed import leaves this one behind.
    assert {name: names for name, names in all_modules.items() if ".disco." not in name} == modules
    assert isinstance(functions, list)
    assert isinstance(all_functions, list)
    left_out = set(all_functions) - set(functions)
    assert all("f_op_dispatcher" in name or "cuda" in name or "disco" in name for name in left_out)
    assert set(functions) <= set(all_functions)
