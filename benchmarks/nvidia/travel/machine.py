"""Facts about the machine that the numbers depend on."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from benchmarks.nvidia.travel import child, smi
from benchmarks.nvidia.travel.ours import environment

_SECONDS = 60.0


def machine(program: Path, scratch: Path) -> dict[str, Any]:
    """Return date, CPU, the devices that edge-rt finds, and what nvidia-smi says of the first of them.

    That is the GPU of all rows: `gpu` is its UUID, if nvidia-smi knows it.
    """
    argv = [str(program), "info", "--devices", "--state", str(scratch / "state"), "--timeout", "30"]
    ended = child.run(argv, _SECONDS, environment(), scratch)
    try:
        kinds = json.loads(ended.output)["devices"]
        devices: Any = next(kind for kind in kinds if kind["kind"] == "cuda")
    except (ValueError, KeyError, TypeError, StopIteration):
        devices = {"problem": ended.reason}
    first: dict[str, Any] = next(iter(devices.get("details") or []), {})
    gpu = smi.gpu_at(str(first.get("pci", "")))
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "gpu": gpu,
        "nvidia_smi": smi.facts(gpu),
        "cuda": devices,
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.machine()
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return found[0] if found else platform.machine()
