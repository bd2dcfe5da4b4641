"""Counts the kernels of an inference: edge-rt runs the library with a driver that counts and no more."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from toolchain.errors import ToolchainError
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.runtime import ensure_runtime

_SOURCE = Path(__file__).with_name("counting_driver.c")
_COMPILE_S = 600.0
_RUN_S = 120.0


def counting_driver(folder: Path) -> Path:
    """Compile the driver into a folder; return its path.

    Raises
    ------
    ToolchainError
        The compiler fails.
    """
    driver = folder / "libcuda.so.1"
    options = [
        "cc",
        "-target",
        "x86_64-linux-gnu.2.27",
        "-O1",
        "-fPIC",
        "-shared",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    done = run_zig([*options, str(_SOURCE), "-o", str(driver)], _COMPILE_S, zig_cache_environment())
    if done.returncode:
        raise ToolchainError(f"{_SOURCE.name} does not compile: {done.last_lines()}", "toolchain doctor")
    return driver


def launches(library: Path, sample: Path, driver: Path) -> int:
    """Return how many kernels edge-rt launches for one inference without a graph.

    Raises
    ------
    ToolchainError
        edge-rt does not run the library.
    """
    program = ensure_runtime("x86_64").program
    folder = driver.parent
    counted = folder / "launches"
    counted.unlink(missing_ok=True)
    argv = [str(program), "run", str(library), "--input", str(sample), "--device", "cuda", "--graph", "off"]
    done = subprocess.run(
        [*argv, "--state", str(folder / "state"), "--output", str(folder / "output.npz")],
        env={"PATH": os.environ["PATH"], "EDGE_CUDA_DRIVER": str(driver), "EDGE_LAUNCHES": str(counted)},
        capture_output=True,
        text=True,
        timeout=_RUN_S,
        check=False,
    )
    if done.returncode:
        raise ToolchainError(f"edge-rt does not run {library.name}: {(done.stderr or done.stdout).strip()}")
    return counted.stat().st_size if counted.exists() else 0
