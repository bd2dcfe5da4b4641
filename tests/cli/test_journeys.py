"""The journeys of docs/architecture.md lead through files that a command enters; it enters few others."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.building.network import written
from tests.cli.commands.fielded import make_fleet
from tests.cli.running import Toolchain
from toolchain.bundles.read import Bundle

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def journey(title: str) -> tuple[list[str], int]:
    """Return the files of a journey's table, and the most files that its command may enter."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.partition(f"\n### {title}\n")[2].partition("\n#")[0]
    (most,) = re.findall(r"at most (\d+) files", section)
    return re.findall(r"^\| `([\w/]+\.py)` \|", section, re.MULTILINE), int(most)


def entered(folder: Path, *arguments: str) -> list[str]:
    """Return the files of the package that a command enters."""
    output = folder / "entered.json"
    ended = subprocess.run(
        [sys.executable, "-m", "tests.cli.traced", str(output), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    files: list[str] = json.loads(output.read_text())
    return files


def check(title: str, files: list[str], *, in_order: bool = True) -> None:
    listed, most = journey(title)
    assert 15 <= len(listed) <= 30
    assert [file for file in listed if file not in files] == [], "the journey does not pass here any more"
    assert not in_order or listed == sorted(listed, key=files.index), "in the order in which they are entered"
    assert len(files) <= most


def test_build(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))  # with a cache it enters fewer
    model = written(tmp_path)
    check("Build", entered(tmp_path, "build", str(model), "--board", "rk3399", "-o", "out"))
    assert state


def test_deploy(
    folder: Path, state: Path, invoke: Toolchain, bundles: dict[str, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    release = make_fleet(folder, invoke, bundles["local"], monkeypatch)
    check("Deploy", entered(folder, "deploy", release, "--board", "one", "--trust", "trust.json"))
    assert state


def test_tune(tmp_path: Path, state: Path) -> None:
    model = written(tmp_path)
    check("Tune", entered(tmp_path, "tune", str(model), "--board", "local", "--trials", "4"), in_order=False)
    assert state
