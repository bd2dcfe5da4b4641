"""Kernels in Oclgrind, a simulator of OpenCL devices: what they execute, whether they stay in their memory.

Counts are of LLVM's instructions, as Oclgrind interprets them; they say nothing of time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

DRIVER = Path("/usr/lib/oclgrind/liboclgrind-rt.so")  # of Debian's package `oclgrind`
_LISTS = Path("/var/lib/apt/lists")
_ROOT = Path(__file__).parents[2]
_SECONDS = 300.0
_LINE = re.compile(r"\s*(\d+) - (.+?)(?: \((\d+) bytes\))?$")
# Clang's names: `llvm.fmuladd.v4f32()` is a sum with a product, contracted; `_Z3fmaDv4_fS_S_()` is a call.
_FMA = re.compile(
    r"call (?:llvm\.(?:fmuladd|fma)\.(?:v(?P<a>\d+))?f\d+|_Z3(?:fma|mad)(?:Dv(?P<b>\d+)_)?[fdDh]).*"
)
_VLOAD = re.compile(r"call _Z\d+vload(?:a_)?(?:half)?(\d+).*?P(?:U3AS(?P<space>\d))?")
_GLOBAL, _PRIVATE = "1", None  # LLVM's address spaces, as such names have them


class WrongKernelError(AssertionError):
    """A kernel that does not compile or cannot be begun, leaves its memory, or has a data race."""


@dataclass(frozen=True)
class Counts:
    """What all work items of a launch executed together.

    Attributes
    ----------
    executed
        Instructions by Oclgrind's names, such as `load global` or `call llvm.fmuladd.v4f32()`.
    bytes
        Of those that load or store, by the same names.
    """

    executed: Mapping[str, int]
    bytes: Mapping[str, int]

    def fmas(self, lanes: int) -> int:
        """Return multiply-adds of vectors of so many lanes; 1: of numbers."""
        found = ((_FMA.fullmatch(name), count) for name, count in self.executed.items())
        return sum(count for fma, count in found if fma and int(fma["a"] or fma["b"] or 1) == lanes)

    @property
    def vector_fmas(self) -> int:
        """Multiply-adds of vectors, whatever their length."""
        return sum(self.fmas(lanes) for lanes in (2, 3, 4, 8, 16))

    @property
    def global_vector_loads(self) -> int:
        """Calls of `vloadN` on global memory."""
        return self._vloads(_GLOBAL)

    @property
    def global_loads(self) -> int:
        """All loads from global memory, each a vector or a number."""
        return self.global_vector_loads + self.executed.get("load global", 0)

    @property
    def private_loads(self) -> int:
        """Loads from arrays that the compiler did not keep in registers."""
        return self._vloads(_PRIVATE) + self.executed.get("load private", 0)

    @property
    def local_loads(self) -> int:
        """Loads from local memory that are written as such."""
        return self.executed.get("load local", 0)

    @property
    def barriers(self) -> int:
        """How often a work item came to a barrier."""
        return sum(count for name, count in self.executed.items() if re.match(r"call _Z\d+barrier", name))

    def _vloads(self, space: str | None) -> int:
        found = ((_VLOAD.match(name), count) for name, count in self.executed.items())
        return sum(count for load, count in found if load and load["space"] == space)


@dataclass(frozen=True)
class Simulated:
    """What a launch left in its arguments (scalars as they were), and what was executed."""

    outputs: tuple[np.ndarray, ...]
    counts: Counts


def is_packaged() -> bool:
    """Whether the system has Oclgrind or could install it; Debian 13 could not."""
    if DRIVER.exists() or not any(_LISTS.glob("*_Packages*")):
        return True
    known = subprocess.run(["apt-cache", "show", "oclgrind"], capture_output=True, timeout=60, check=False)
    return known.returncode == 0


def expect_oclgrind() -> None:
    """Skip the test where the system has no such package; elsewhere a missing one fails it."""
    if not is_packaged():
        pytest.skip("this system has no package oclgrind")


def simulate(
    source: str,
    kernel: str,
    groups: Sequence[int],
    items: Sequence[int],
    arguments: Sequence[np.ndarray | np.generic],
    options: str = "",
) -> Simulated:
    """Run a kernel once in Oclgrind, with its checks of bounds and data races.

    Parameters
    ----------
    source
        OpenCL C; other kernels in it do no harm.
    groups, items
        How many work groups there are along each axis, and work items in each; three axes at most.
    arguments
        Arrays are memory of exactly their size; numpy's scalars (`np.int32(3)`) are numbers.
    options
        Of the compiler.

    Raises
    ------
    WrongKernelError
        With what the compiler or Oclgrind say.
    """
    expect_oclgrind()
    axes = [[*extents, 1, 1][:3] for extents in (groups, items)]
    with tempfile.TemporaryDirectory(prefix="oclgrind-") as name:
        folder = Path(name)
        (folder / "kernel.cl").write_text(source)
        launch = {"driver": str(DRIVER), "kernel": kernel, "options": options, "arguments": len(arguments)}
        (folder / "launch.json").write_text(json.dumps(launch | {"groups": axes[0], "items": axes[1]}))
        for number, argument in enumerate(arguments):
            np.save(folder / f"{number}.npy", argument)
        said = _run(folder, kernel)
        return Simulated(
            tuple(np.load(folder / f"{number}.npy") for number in range(len(arguments))), _counts(said)
        )


def _run(folder: Path, kernel: str) -> str:
    log = folder / "log"
    settings = {"OCLGRIND_INST_COUNTS": "1", "OCLGRIND_DATA_RACES": "1", "OCLGRIND_LOG": str(log)}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.opencl.host", str(folder)],
        cwd=_ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    complaints = log.read_text() if log.exists() else ""
    if ended.returncode or complaints.strip():
        raise WrongKernelError(f"kernel {kernel}: {complaints}{ended.stderr}"[:4000])
    return ended.stdout


def _counts(said: str) -> Counts:
    found = [match.groups() for match in map(_LINE.fullmatch, said.splitlines()) if match]
    executed = {name: int(count) for count, name, _ in found}
    return Counts(executed, {name: int(size) for _, name, size in found if size})
