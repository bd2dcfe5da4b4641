"""A stand-in for nvidia-smi: two GPUs, of which the second is the emulated driver's first."""

from __future__ import annotations

import os
from pathlib import Path

MEASURED = "GPU-2f0c6a57-0000-0000-0000-000000000002"

# `--query-gpu` of all GPUs lists them; with an `--id`, samples come again and again with `--loop-ms`.
_SCRIPT = """#!/bin/sh
echo "$@" >> "{log}"
case "$*" in
  *pci.bus_id,uuid*) echo "00000000:41:00.0, GPU-of-another"; echo "00000000:00:00.0, {measured}" ;;
  *loop-ms*--id={measured}*|*--id={measured}*loop-ms*)
    while echo "1980, 2619, 310.5, 41, 900"; do echo sampled >> "{log}"; sleep 0.05; done ;;
  *--id={measured}*) echo "a GPU, 580.1, 81559, 1980, 2619, 700.0" ;;
  *) echo "1, 1, 1, 1, 1" ;;
esac
"""


def nvidia_smi(folder: Path) -> tuple[str, Path]:
    """Write the stand-in; return a PATH that begins with it, and the file that gets its arguments."""
    there, log = folder / "smi", folder / "smi.log"
    there.mkdir()
    script = there / "nvidia-smi"
    script.write_text(_SCRIPT.format(log=log, measured=MEASURED))
    script.chmod(0o755)
    return f"{there}{os.pathsep}{os.environ['PATH']}", log
