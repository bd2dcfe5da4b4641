"""A timeout for a child process."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def killed_after(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """Kill a process unless the block ends in time; yield an event that is set if it was killed.

    The kill also unblocks a read or write in the middle of a message, which a `poll` cannot.
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
