"""A worker that compiles functions has imported what it needs before the first one comes."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from toolchain.lowering.kernels.begin import begin
print("tvm" in sys.modules)
begin()
before = set(sys.modules)
from toolchain.lowering.kernels.compile import compile_kernel
import tvm.tirx
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.slow
def test_importing_it_is_cheap_and_beginning_imports_all() -> None:
    """Whoever starts the workers need not have TVM imported yet."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n[]\n"
