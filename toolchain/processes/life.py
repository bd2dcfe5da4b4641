"""The identity of a process. A process id is not enough, since it is reused after the process ends."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

# Indices of fields in a `stat` file after the name (proc(5)); the second: start time in ticks since boot.
_STATE, _BEGAN = 0, 19
_ENDED = ("Z", "X")  # zombie, or dead
_STOPPED = ("T", "t")


@dataclass(frozen=True)
class Life:
    """The identity of one process, which a later process with the same id does not share.

    Attributes
    ----------
    pid
        The process id.
    began
        The machine's boot id and the start time of the process in ticks since boot. A wall-clock time would
        change when the clock is set.
    """

    pid: int
    began: str

    @classmethod
    def of(cls, pid: int) -> Life | None:
        """Return the identity of the process that has this id now; None if there is no running one."""
        fields = _status(pid)
        return None if fields is None else cls(pid, f"{_boot()} {fields[_BEGAN]}")

    @classmethod
    def own(cls) -> Life:
        """Return the identity of this process."""
        own = cls.of(os.getpid())
        assert own is not None  # noqa: S101 - it runs
        return own

    def lasts(self) -> bool:
        """Whether the process still runs; a zombie does not count."""
        return Life.of(self.pid) == self

    def ends_within(self, seconds: float) -> bool:
        """Wait until the process has ended; return False on timeout."""
        deadline = time.monotonic() + seconds
        while self.lasts():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if the process still runs."""
        if self.lasts():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by a signal such as SIGSTOP or by a debugger."""
    fields = _status(pid)
    return fields is not None and fields[_STATE] in _STOPPED


def _status(pid: int) -> list[str] | None:
    try:
        # The first thread's file has the same fields. A program that reads the file of its own process gets a
        # made-up one from qemu-user, with another start time (`linux-user/syscall.c: open_self_stat`).
        fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[_STATE] in _ENDED else fields


@lru_cache(maxsize=1)
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
