"""What a command costs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TOOLCHAIN = Path(sys.executable).with_name("toolchain")


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a command with its child processes, and MiB that its largest process had in memory."""

    cpu_s: float
    mib: float

    def __str__(self) -> str:
        return f"{self.cpu_s:.1f}"


def cost(arguments: list[str], environment: Mapping[str, str]) -> Cost:
    """Run a command of `toolchain` and return what it took; raise where it fails."""
    with subprocess.Popen(
        [_TOOLCHAIN, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        said = process.stderr.read() if process.stderr else ""
        _pid, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"toolchain {' '.join(arguments)}: {process.returncode}: {said}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
