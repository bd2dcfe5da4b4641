"""QEMU's system mode for tests: installed, or unpacked below .venv when the first test asks for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SECONDS = 1800


def path_with_qemu() -> str:
    """Return a PATH by which QEMU's programs are found; they are unpacked if they are not installed."""
    subprocess.run([_ROOT / "tools" / "machine.sh"], check=True, timeout=_SECONDS)
    return f"{_ROOT / '.venv' / 'machine' / 'bin'}{os.pathsep}{os.environ['PATH']}"
