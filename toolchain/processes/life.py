"""The identity of a process: its number is used again after its end, and a time moves with the clock."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

# Of /proc/PID/stat behind the name (proc(5)); the second: ticks from the machine's start to the process's.
_STATE, _BEGAN = 0, 19
_ENDED = ("Z", "X")  # waiting to be reaped, or nearly gone
_STOPPED = ("T", "t")


@dataclass(frozen=True)
class Life:
    """One process, never mistaken for another one that gets its number later.

    Attributes
    ----------
    pid
        Its number.
    began
        Which start of the machine it belongs to, and ticks of the kernel since that. Not a time: those
        move when the clock is set.
    """

    pid: int
    began: str

    @classmethod
    def of(cls, pid: int) -> Life | None:
        """Return the process that has this number now; None if none has, or it has ended."""
        fields = _status(pid)
        return None if fields is None else cls(pid, f"{_boot()} {fields[_BEGAN]}")

    @classmethod
    def own(cls) -> Life:
        """Return this process."""
        own = cls.of(os.getpid())
        assert own is not None  # noqa: S101 - it runs
        return own

    def lasts(self) -> bool:
        """Whether the process is still there and not merely waiting to be reaped."""
        return Life.of(self.pid) == self

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


def is_stopped(pid: int) -> bool:
    """Whether a process exists and does nothing, because of a signal such as SIGSTOP or a debugger."""
    fields = _status(pid)
    return fields is not None and fields[_STATE] in _STOPPED


def _status(pid: int) -> list[str] | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[_STATE] in _ENDED else fields


@lru_cache(maxsize=1)
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
