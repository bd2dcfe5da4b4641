"""Running the command line as a user does: a process with arguments, streams and an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Toolchain = Callable[..., Ran]


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    """Run `toolchain ARGUMENTS` in an empty folder; a traceback is never an answer."""
    folder = tmp_path / "cwd"
    folder.mkdir()

    def run(*arguments: object, cwd: Path = folder, timeout: float = 120, **environment: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "toolchain", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
