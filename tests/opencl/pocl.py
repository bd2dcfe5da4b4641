"""Kernels on PoCL, the CPU as an OpenCL device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).parents[2]
_SECONDS = 300.0

NAMES = ("pthread-", "cpu-")
"""How the device's name begins in PoCL 3 and in PoCL 6."""


def outputs(
    source: str, kernel: str, groups: Sequence[int], items: Sequence[int], arguments: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Run a kernel once; return what its arguments hold then. All parameters are as `simulate` has them."""
    axes = [[*extents, 1, 1][:3] for extents in (groups, items)]
    with tempfile.TemporaryDirectory(prefix="pocl-") as name:
        folder = Path(name)
        (folder / "kernel.cl").write_text(source)
        launch = {"driver": "libOpenCL.so.1", "kernel": kernel, "options": "", "arguments": len(arguments)}
        (folder / "launch.json").write_text(json.dumps(launch | {"groups": axes[0], "items": axes[1]}))
        for number, argument in enumerate(arguments):
            np.save(folder / f"{number}.npy", argument)
        done = subprocess.run(
            [sys.executable, "-m", "tests.opencl.host", name],
            cwd=_ROOT,
            env=os.environ | {"POCL_CACHE_DIR": f"{name}/cache"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return [np.load(folder / f"{number}.npy") for number in range(len(arguments))]
