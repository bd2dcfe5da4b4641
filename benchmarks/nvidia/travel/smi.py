"""Watches a GPU by nvidia-smi while something runs: clocks, power, temperature, memory.

nvidia-smi counts all GPUs of a machine, in another order than CUDA, whatever CUDA_VISIBLE_DEVICES says. So
its first GPU may be another one than that which is measured: GPUs are named by their UUIDs here.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import tempfile
from types import TracebackType
from typing import Any

_WATCHED = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "memory.used")
_FACTS = ("name", "driver_version", "memory.total", "clocks.max.sm", "clocks.max.mem", "power.limit")
_SECONDS = 20.0
_EVERY_MS = 200


def gpu_at(pci: str) -> str | None:
    """Return the UUID of the GPU at a PCI address as the driver writes it, or of the only GPU.

    None if nvidia-smi is not here or knows no such GPU.
    """
    found = [line for line in _asked(("pci.bus_id", "uuid")) if len(line) == 2]
    same = [uuid for place, uuid in found if _numbers(place) == _numbers(pci)]
    if same:
        return same[0]
    return found[0][1] if len(found) == 1 else None


def facts(gpu: str | None) -> dict[str, str]:
    """Return what nvidia-smi says of a GPU; empty without one."""
    lines = _asked(_FACTS, f"--id={gpu}") if gpu else []
    values = lines[0] if lines else []
    return {_FACTS[i]: values[i][:100] for i in range(min(len(values), len(_FACTS)))}


def _asked(quantities: tuple[str, ...], *options: str) -> list[list[str]]:
    """Return the values of each GPU; empty if nvidia-smi is not here or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    asked = [program, f"--query-gpu={','.join(quantities)}", "--format=csv,noheader,nounits", *options]
    try:
        done = subprocess.run(
            asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    lines = done.stdout.decode(errors="replace").splitlines()
    return [[each.strip() for each in line.split(",")] for line in lines if line.strip()]


def _numbers(pci: str) -> list[int]:
    """Return domain, bus, device and function: nvidia-smi writes a domain with more zeros than the driver."""
    return [int(each, 16) for each in re.findall("[0-9a-fA-F]+", pci)]


class Watch:
    """Samples of a GPU, by its UUID, within a `with` block; none of None."""

    def __init__(self, gpu: str | None) -> None:
        self._gpu = gpu
        self._program = shutil.which("nvidia-smi") if gpu else None
        self._process: subprocess.Popen[bytes] | None = None
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self.seen: dict[str, Any] = {}
        """Median, least and largest of each quantity, after the block; empty without nvidia-smi."""

    def __enter__(self) -> Watch:
        if self._program is not None:
            asked = [self._program, f"--query-gpu={','.join(_WATCHED)}", "--format=csv,noheader,nounits"]
            asked += [f"--id={self._gpu}", f"--loop-ms={_EVERY_MS}"]
            try:
                # In this process's group: who is killed with that at a deadline leaves no sampling behind.
                self._process = subprocess.Popen(
                    asked, stdin=subprocess.DEVNULL, stdout=self._file, stderr=subprocess.DEVNULL
                )
            except OSError:
                self._process = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._file.seek(0)
        self.seen = summary(self._file.read().decode(errors="replace"))
        self._file.close()


def summary(text: str) -> dict[str, Any]:
    """Return median, least and largest of each column; what is no number is left out."""
    columns: dict[str, list[float]] = {}
    for line in text.splitlines():
        values = line.split(",")
        if len(values) != len(_WATCHED):  # the last line may be cut
            continue
        for i, name in enumerate(_WATCHED):
            try:
                columns.setdefault(name, []).append(float(values[i]))
            except ValueError:  # "[N/A]"
                continue
    return {
        name: {"median": statistics.median(found), "min": min(found), "max": max(found)}
        for name, found in columns.items()
        if found
    }
