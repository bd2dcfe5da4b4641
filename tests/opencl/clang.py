"""PoCL's own front end for OpenCL C, clang 15, as a judge of sources."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

_CLANG = shutil.which("clang-15")  # PoCL 3.1 depends on it
_COMPILE = "-x cl -cl-std=CL1.2 -target spir64-unknown-unknown -fsyntax-only -Xclang -finclude-default-header"


def problems(source: str) -> str:
    """Return what the compiler says of a source; empty: it compiles."""
    if _CLANG is None:
        assert "CI" not in os.environ, "PoCL brings clang-15"
        pytest.skip("there is no clang-15 here")
    done = subprocess.run(
        [_CLANG, *_COMPILE.split(), "-"], input=source, capture_output=True, text=True, timeout=120
    )
    return done.stderr or ("" if done.returncode == 0 else f"exit {done.returncode}")
