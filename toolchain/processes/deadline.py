"""A time by which a process has to be done."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def killed_after(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """Kill a process unless the block ends in time; yield an event that is set if it was killed.

    Killing it also ends a read or write in the middle of a message, where a `poll` would not help.
    """
    late = threading.Event()

    def kill() -> None:
        late.set()
        process.kill()

    clock = threading.Timer(seconds, kill)
    clock.start()
    try:
        yield late
    finally:
        clock.cancel()
        clock.join()
