"""`tools/fresh.sh`: a clone, an empty HOME, a Docker engine without images; nothing of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until

pytestmark = pytest.mark.slow  # starts a Docker engine

ROOT = Path(__file__).parents[1]
SHOW = "pwd; echo $HOME; ls -A $HOME | wc -l; docker images --quiet | wc -l; git rev-parse HEAD"


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Yield a folder with a short name: those of Unix sockets are limited to 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="et-") as folder:
        yield Path(folder)


def test_a_command_finds_nothing_of_this_machine(temporary: Path) -> None:
    done = subprocess.run(
        [ROOT / "tools" / "fresh.sh", "sh", "-c", f"{SHOW}; exit 7"],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    folder, home, in_home, images, commit = done.stdout.split()
    assert Path(folder).parent == Path(home).parent
    assert Path(folder).parent.parent == temporary
    assert (in_home, images) == ("0", "0")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert commit == head.stdout.strip()
    assert not list(temporary.iterdir())


def test_ending_it_ends_what_it_started(temporary: Path, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    child = subprocess.Popen(
        [
            ROOT / "tools" / "fresh.sh",
            "sh",
            "-c",
            f"echo $$ >{begun}.new; mv {begun}.new {begun}; exec sleep 600",
        ],
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        until(begun.exists, 300, "the command")
        child.send_signal(signal.SIGTERM)
        assert child.wait(120) == 130
    finally:
        child.kill()
    assert not Path(f"/proc/{int(begun.read_text())}").exists()
    assert not list(temporary.iterdir())
