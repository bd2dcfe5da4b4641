"""Those that wait for a board's measuring lock, as processes of this host."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.runtime.conftest import Case, Edge
from tests.waiting import PATIENCE_S, until


@contextmanager
def held(state: Path, what: str = "bench of another") -> Iterator[None]:
    """Hold the lock as a measurement does."""
    state.mkdir(mode=0o700, exist_ok=True)
    with (state / "measure.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f'{{"pid": {os.getpid()}, "what": "{what}"}}\n')
        file.flush()
        yield
        file.truncate(0)


class Board:
    """A state folder with those that wait in it."""

    def __init__(self, native: Edge, dense: Case) -> None:
        self.native, self.dense = native, dense
        self.state = Path(dense.arguments[-1])
        self.folder = self.state.parent
        self.processes: list[subprocess.Popen[bytes]] = []

    def status(self) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
        """Return who holds the lock, and who waits."""
        code, answer = self.native("info", "--state", self.state)
        assert code == 0
        return answer["holder"], answer["waiting"]

    def pids(self) -> list[int]:
        return [waiter["pid"] for waiter in self.status()[1]]

    def output(self, name: str) -> Path:
        return self.folder / f"{name}.npz"

    def wait(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a process that waits for its turn to compute `output(name)`; return when it waits, or did."""
        arguments = [*self.dense.arguments, "--output", self.output(name), "--wait", PATIENCE_S, *options]
        command = [*self.native.command, "run", *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        until(lambda: process.pid in self.pids() or process.poll() is not None, what=f"that {name} waits")
        return process

    def waits_no_more(self, process: subprocess.Popen[bytes]) -> bool:
        return process.pid not in self.pids()

    def tickets(self) -> list[str]:
        return sorted(path.name for path in (self.state / "measure.queue").iterdir())

    def turns(self) -> list[str]:
        """Return the names in the order of their turns: outputs are written before the lock is given back."""
        return [path.stem for path in sorted(self.folder.glob("*.npz"), key=lambda p: p.stat().st_mtime_ns)]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def ended(processes: list[subprocess.Popen[bytes]]) -> list[int]:
    return [process.wait(PATIENCE_S) for process in processes]
