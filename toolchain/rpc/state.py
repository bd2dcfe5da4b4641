"""Where a running lab says that it runs."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from toolchain.atomic import write_text
from toolchain.config import state_dir

_SAME_S = 0.05  # the kernel counts a process's begin in hundredths of a second


@dataclass(frozen=True)
class Life:
    """A process, which its number alone does not identify: numbers come again."""

    pid: int
    created: float

    @classmethod
    def own(cls) -> Life:
        """Return this process."""
        return cls(os.getpid(), psutil.Process().create_time())

    def lasts(self) -> bool:
        """Whether the process is still there and not merely waiting to be reaped."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < _SAME_S
            return bool(same and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    def ends_within(self, seconds: float) -> bool:
        """Wait until the process has ended."""
        deadline = time.monotonic() + seconds
        while self.lasts():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process is still this one."""
        if self.lasts():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(frozen=True)
class LabState:
    """What `lab.json` says: who supervises, the tracker's port, the tracker key of each board."""

    supervisor: Life
    port: int
    boards: dict[str, str]


def folder() -> Path:
    """Return the lab's folder; it may be deleted at any time, which ends the lab."""
    return state_dir().absolute() / "lab"


def state_file(where: Path) -> Path:
    """Return the file in the lab's folder that says whether it runs."""
    return where / "lab.json"


def write_state(where: Path, state: LabState) -> None:
    """Say that the lab runs."""
    write_text(state_file(where), json.dumps(asdict(state), indent=2) + "\n")


def read_state(where: Path) -> LabState | None:
    """Return what the lab says; None where it says nothing or its supervisor is gone."""
    try:
        found = json.loads(state_file(where).read_text())
        state = LabState(Life(**found["supervisor"]), int(found["port"]), dict(found["boards"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return state if state.supervisor.lasts() else None
