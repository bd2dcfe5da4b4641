"""Running the command line as a user does: arguments in, streams and an exit code out."""

from __future__ import annotations

import json
import os
import signal
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
        """Its JSON, which must be all that it printed to stdout."""
        return json.loads(self.out)

    def says(self, *words: str) -> bool:
        """Whether its error message and hint hold all of that."""
        return all(word in self.err for word in words)


Toolchain = Callable[..., Ran]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the empty folder that commands run in."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    return folder


@pytest.fixture
def toolchain(folder: Path) -> Toolchain:
    """Run `toolchain ARGUMENTS` as a process of its own; a traceback is never an answer."""

    def run(*arguments: object, cwd: Path = folder, timeout: float = 600, **environment: str) -> Ran:
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


@pytest.fixture
def invoke(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Toolchain:
    """Run `toolchain ARGUMENTS` in this process, by the same way in: spares the imports."""
    from toolchain.cli import root as failures
    from toolchain.cli.root import root

    monkeypatch.chdir(folder)
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        try:
            code = failures.run(root, [str(argument) for argument in arguments])
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
        captured = capfd.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ran(code, captured.out, captured.err)

    return run
