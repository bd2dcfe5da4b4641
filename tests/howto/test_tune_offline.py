"""The commands of docs/howto/tune-offline.md print what the page shows, but for numbers."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from tests.howto.page import ROOT

PAGE = ROOT / "docs" / "howto" / "tune-offline.md"
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_CHOICE = re.compile(r"\S+(?= +fused_)")


def transcript() -> list[tuple[list[str], list[str]]]:
    """Return the page's commands, each with the lines that it prints."""
    found: list[tuple[list[str], list[str]]] = []
    for line in re.findall(r"^ {4}(.*)$", PAGE.read_text(), re.MULTILINE):
        if line.startswith("$ "):
            found.append((shlex.split(line[2:]), []))
        elif line:
            found[-1][1].append(line)
    return found


def shape(line: str) -> str:
    """Return a line without its numbers and what was chosen for a task, which differ from host to host."""
    return " ".join(_NUMBER.sub("#", _CHOICE.sub("CHOICE", line)).split())


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_the_page_shows_what_happens(
    invoke: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    script = ROOT / "docs" / "examples" / "convolution.py"
    subprocess.run([sys.executable, script, tmp_path / "convolution.onnx"], check=True, timeout=120)
    for argv, shown in transcript():
        if argv[0] == "toolchain":
            printed = invoke(*argv[1:]).out
        else:
            command = [*argv, "--state", str(tmp_path / "rt")]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=True)
            printed = (done.stderr + done.stdout).decode()
        there = {shape(line) for line in printed.splitlines()}
        assert not [line for line in shown if shape(line) not in there], (argv, printed)
