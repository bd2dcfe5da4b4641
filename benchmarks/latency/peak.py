"""What one core of this machine can do at most."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.latency.networks import command

_SOURCE = Path(__file__).with_name("peak.c")


def peak() -> dict[str, float]:
    """Return `gflops` (float32, in registers) and `gbytes` a second read from memory, of one core."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "peak"
        flags = ["-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast"]
        command([sys.executable, "-m", "ziglang", "cc", *flags, _SOURCE, "-o", program])
        gflops, gbytes = command([program]).split()
    return {"gflops": float(gflops), "gbytes": float(gbytes)}
