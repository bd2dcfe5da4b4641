"""The machine and the versions that numbers were measured with."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.latency.networks import command

ROOT = Path(__file__).parent.parent


def machine(peers: list[str], python: Path) -> dict[str, Any]:
    """Return what the numbers depend on; `python` has the peers."""
    from toolchain.host import physical_cores

    model = [line.split(":", 1)[1] for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]  # fmt: skip
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    ask = "import importlib.metadata as m, sys; print(*(m.version(name) for name in sys.argv[1:]))"
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": model[0].strip() if model else os.uname().machine,
        "cores": physical_cores(),
        "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        "commit": commit.stdout.strip() or version("edge-toolchain"),
        "versions": dict(zip(peers, command([python, "-c", ask, *peers]).split(), strict=True)),
    }
