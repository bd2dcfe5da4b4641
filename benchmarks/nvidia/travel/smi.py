"""Watches the GPU by nvidia-smi while something runs: clocks, power, temperature, memory."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
from types import TracebackType
from typing import Any

from benchmarks.nvidia.travel.child import end

_WATCHED = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "memory.used")
_FACTS = ("name", "driver_version", "memory.total", "clocks.max.sm", "clocks.max.mem", "power.limit")
_SECONDS = 20.0
_EVERY_MS = 200


def facts() -> dict[str, str]:
    """Return what nvidia-smi says of the first GPU; empty without nvidia-smi."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    asked = [program, f"--query-gpu={','.join(_FACTS)}", "--format=csv,noheader,nounits", "--id=0"]
    try:
        done = subprocess.run(
            asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [each.strip() for each in done.stdout.decode(errors="replace").strip().split(",")]
    return {_FACTS[i]: values[i][:100] for i in range(min(len(values), len(_FACTS)))}


class Watch:
    """Samples of the first GPU within a `with` block."""

    def __init__(self) -> None:
        self._program = shutil.which("nvidia-smi")
        self._process: subprocess.Popen[bytes] | None = None
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self.seen: dict[str, Any] = {}
        """Median, least and largest of each quantity, after the block; empty without nvidia-smi."""

    def __enter__(self) -> Watch:
        if self._program is not None:
            asked = [self._program, f"--query-gpu={','.join(_WATCHED)}", "--format=csv,noheader,nounits"]
            asked += ["--id=0", f"--loop-ms={_EVERY_MS}"]
            try:
                self._process = subprocess.Popen(
                    asked, stdin=subprocess.DEVNULL, stdout=self._file, stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )  # fmt: skip
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
            end(self._process)
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
