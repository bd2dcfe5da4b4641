"""A network's first start on a device, which compiles its kernels, and the next one, which finds them."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from toolchain.bundles import read_bundle
from toolchain.runtime import ensure_runtime

_SECONDS = 900.0


def starts(model: str, again: int) -> dict[str, Any]:
    """Build a network for OpenCL and this host; run it once with empty caches, then with what was kept.

    Parameters
    ----------
    again
        How many times it is started with what was kept; the best counts.

    Returns
    -------
        Seconds by the clock and of the processors, and the ratio of the second start to the first.
    """
    program = ensure_runtime("x86_64").program
    with tempfile.TemporaryDirectory(prefix="edge-benchmark-") as name:
        folder = Path(name)
        words = ["build", model, "--board", "x86_64", "--device", "opencl", "-o", name]
        subprocess.run(
            [sys.executable, "-m", "toolchain", *words],
            check=True,
            timeout=_SECONDS,
            stdout=subprocess.DEVNULL,
        )
        bundle = read_bundle(next(folder.glob("*.bundle")))
        library = folder / "network.so"
        library.write_bytes(bundle.library)
        argv = [str(program), "run", str(library), "--device", "opencl", "--state", str(folder / "state")]
        argv += ["--output", str(folder / "outputs.npz")]
        for number, array in enumerate(bundle.sample.values()):
            np.save(folder / f"{number}.npy", array)
            argv += ["--input", str(folder / f"{number}.npy")]
        first = _run(argv)
        kept = folder / "state" / "devices" / "opencl"
        files = [path.stat().st_size for path in kept.iterdir()]
        second = min(_run(argv) for _ in range(again))
        # What PoCL keeps for itself; a Mali's driver keeps nothing.
        shutil.rmtree(folder / "state" / "devices" / "pocl", ignore_errors=True)
        ours = _run(argv)
    return {
        "model": model,
        "kernels": len(files),
        "kept_kib": sum(files) // 1024,
        "first_s": _rounded(first),
        "second_s": _rounded(second),
        "second_with_our_cache_alone_s": _rounded(ours),
        "ratio": round(second[0] / first[0], 3),
        "ratio_with_our_cache_alone": round(ours[0] / first[0], 3),
    }


def _run(argv: list[str]) -> tuple[float, float]:
    """Return the seconds by the clock and those of the processors."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ended = subprocess.run(argv, env=environment, capture_output=True, timeout=_SECONDS, check=False)
    took, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode:
        raise SystemExit(ended.stderr.decode(errors="replace"))
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _rounded(seconds: tuple[float, float]) -> dict[str, float]:
    return {"clock": round(seconds[0], 2), "processors": round(seconds[1], 2)}
