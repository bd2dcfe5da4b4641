"""What OpenCL adds to edge-rt: bytes, and time to start where there is no driver."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from toolchain.runtime import ensure_runtime
from toolchain.runtime.compile import PROGRAM, compile_runtime
from toolchain.runtime.fingerprint import NATIVE

_SECONDS = 60.0


def sizes(arch: str, runs: int) -> dict[str, Any]:
    """Compile edge-rt without OpenCL (a minute or more), and compare it with the one there is.

    Parameters
    ----------
    arch
        Which of them; they are started if it is this host's, x86_64.
    runs
        How often each is started.
    """
    with tempfile.TemporaryDirectory(prefix="edge-benchmark-") as name:
        program, other = ensure_runtime(arch).program, without("opencl", arch, Path(name))
        sizes = {"edge_rt_bytes": program.stat().st_size, "without_opencl_bytes": other.stat().st_size}
        document: dict[str, Any] = {"arch": arch, **sizes}
        document["growth_kib"] = round((sizes["edge_rt_bytes"] - sizes["without_opencl_bytes"]) / 1024, 1)
        if arch == "x86_64":
            document |= _starts(program, other, Path(name), runs)
    return document


def without(kind: str, arch: str, folder: Path) -> Path:
    """Compile edge-rt without a kind of device (a minute or more); return the program."""
    sources, made = folder / "native", folder / "made"
    shutil.copytree(NATIVE, sources)
    made.mkdir()
    lists = sources / "CMakeLists.txt"
    text = lists.read_text()
    line = re.search(rf"(?m)^  {kind}(?=\n|\))", text)
    if line is None:
        raise AssertionError(f"{lists} has no line {kind!r} to take out")
    lists.write_text(text[: line.start()] + text[line.end() :])
    with mock.patch("toolchain.runtime.compile.NATIVE", sources):
        compile_runtime(arch, made, lambda _: None)
    return made / PROGRAM


def _starts(program: Path, without: Path, folder: Path, runs: int) -> dict[str, Any]:
    """Return the milliseconds of `edge-rt info`, taken in turns; no driver is found in an empty folder."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "OCL_ICD_VENDORS": str(folder / "none")}
    times: dict[str, list[float]] = {"edge_rt": [], "without_opencl": []}
    for _ in range(runs):
        for who, which in (("edge_rt", program), ("without_opencl", without)):
            begin = time.perf_counter()
            argv = [str(which), "info", "--state", str(folder / "state")]
            subprocess.run(argv, env=environment, check=True, capture_output=True, timeout=_SECONDS)
            times[who].append((time.perf_counter() - begin) * 1e3)
    best = {who: min(ms) for who, ms in times.items()}
    return {
        "start_ms": {who: round(ms, 2) for who, ms in best.items()},
        "start_median_ms": {who: round(statistics.median(ms), 2) for who, ms in times.items()},
        "start_ratio": round(best["edge_rt"] / best["without_opencl"], 2),
    }
