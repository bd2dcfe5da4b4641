"""What `make deps` leaves alone."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

from toolchain.images.engine import answers

TOOLS = Path(__file__).parents[1] / "tools"


def _daemons() -> set[str]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            if (process / "comm").read_text().strip() == "dockerd":
                found.add(process.name)
    return found


def test_a_machine_that_is_ready_is_not_touched() -> None:
    before = _daemons()
    done = subprocess.run(
        [TOOLS / "docker.sh", "none"], capture_output=True, text=True, timeout=60, cwd=TOOLS, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "run `make deps` first"
    assert answers() and _daemons() == before
