"""The largest memory that a process had, as Linux counts it."""

from __future__ import annotations

import re
from pathlib import Path


def peak_kib(process: int | str = "self") -> int:
    """Return it in KiB; 0 of a process that has ended.

    `ru_maxrss` would count what its parent had before `exec`.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) if found else 0
