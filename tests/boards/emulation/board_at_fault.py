"""A board that is a container with an sshd of its own, and what is typed about it: for tests of faults."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import until
from toolchain.boards.ssh.address import SshAddress
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.settings import configuration
from toolchain.images.engine import Engine

ROOT = "/home/edge/.edge-toolchain"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def says(self, *words: str) -> bool:
        """Whether its error message and hint hold all of that, and no traceback."""
        return "Traceback" not in self.err and all(word in self.err for word in words)


@dataclass(frozen=True)
class Bench:
    """The board `box`, its container and the project's folder, with a bundle for boards of its class."""

    engine: Engine
    container: str
    folder: Path
    bundle: Path
    address: SshAddress

    def inside(self, script: str) -> str:
        """Run a script as root in the container."""
        code, printed = self.engine.run(self.container, ["sh", "-c", script])
        assert code == 0, printed
        return printed.decode().strip()

    def reload(self) -> None:
        """Have its sshd read its files anew."""
        # It writes the file once it listens again.
        self.inside("pid=$(cat /run/sshd.pid) && rm /run/sshd.pid && kill -HUP $pid")
        until(lambda: bool(self.inside("cat /run/sshd.pid 2>/dev/null || true")))

    def command(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "toolchain", *map(str, words)]

    def begin(self, *words: object, **environment: str) -> subprocess.Popen[str]:
        """Start `toolchain WORDS` in the project."""
        return subprocess.Popen(
            self.command(*words),
            cwd=self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, process: subprocess.Popen[str], within: float = 200) -> Ended:
        try:
            out, err = process.communicate(timeout=within)
        finally:
            process.kill()
        return Ended(process.returncode, out, err)

    def ran(self, *words: object, **environment: str) -> Ended:
        return self.ended(self.begin(*words, **environment))

    def enter(self, name: str, **changed: object) -> None:
        """Enter the container into toolchain.toml under another name."""
        values = {
            "class": "rk3399",
            "host": "127.0.0.1",
            "port": self.address.port,
            "user": "edge",
            "host_key": self.address.host_key,
            "identity": str(self.address.identity),
            **changed,
        }
        lines = [f"[boards.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        (self.folder / FILE_NAME).write_text("\n".join(lines) + "\n")
        configuration.cache_clear()

    def run_of(self, board: str) -> list[object]:
        """Return the words of one inference there."""
        return ["run", self.bundle, "--board", board, "--input", "data=x.npy", "-o", "y.npz"]

    def programs(self) -> list[str]:
        return [line for line in self.engine.programs(self.container) if "bin/edge-rt" in line]

    def parts(self) -> list[str]:
        """Return the half files there are."""
        return self.inside(f"find {ROOT} -name '.*.part'").splitlines()

    def runs(self) -> list[str]:
        """Return the folders of commands that have not ended."""
        return self.inside(f"ls {ROOT}/run 2>/dev/null || true").splitlines()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        self.engine.pause(self.container)
        try:
            yield
        finally:
            self.engine.unpause(self.container)

    @contextlib.contextmanager
    def measuring(self) -> Iterator[subprocess.Popen[str]]:
        """Have a process of this host measure there for long."""
        long = ("--min-repeat-ms", 1000, "--repeat", 1000)
        process = self.begin("bench", self.bundle, "--board", "box", *long)
        try:
            until(lambda: any(" bench " in line for line in self.programs()))
            yield process
        finally:
            process.kill()
            process.wait(60)
