"""What one core of this machine can do at most."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.latency.networks import command

_SOURCE = Path(__file__).with_name("peak.c")


def peak() -> dict[str, float]:
    """Return what one core does in a second: float32 operations in registers, bytes read from memory.

    `gflops` at best, `steady_gflops` in the middle of many tries (a core that is hot or whose neighbours are
    busy is slower), `gbytes` at best.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "peak"
        flags = ["-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast"]
        command([sys.executable, "-m", "ziglang", "cc", *flags, _SOURCE, "-o", program])
        numbers = map(float, command([program]).split())
    return dict(zip(("gflops", "steady_gflops", "gbytes"), numbers, strict=True))
