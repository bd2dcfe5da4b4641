"""Sends input to a child process and receives its output."""

from __future__ import annotations

import os
import selectors
import subprocess
import time

from toolchain.boards.output.kept import MOST_ERRORS, MOST_OUTPUT, Kept

_CHUNK = 1 << 16


def exchange(child: subprocess.Popen[bytes], input: bytes, timeout: float) -> tuple[Kept, Kept]:
    """Send a child its input and read its output until it ends; `Kept` limits what is stored.

    Returns
    -------
    tuple
        Standard output and standard error of the child, which has ended.

    Raises
    ------
    subprocess.TimeoutExpired
        The child has not ended, or another process holds its output open, after `timeout` seconds.
    """
    assert child.stdin and child.stdout and child.stderr  # noqa: S101 - it was started with pipes
    deadline = time.monotonic() + timeout
    kept = {child.stdout.fileno(): Kept(MOST_OUTPUT), child.stderr.fileno(): Kept(MOST_ERRORS, last=True)}
    pending = memoryview(input)
    with selectors.DefaultSelector() as ready:
        for stream in (child.stdout, child.stderr):
            ready.register(stream, selectors.EVENT_READ)
        if pending:
            os.set_blocking(child.stdin.fileno(), False)
            ready.register(child.stdin, selectors.EVENT_WRITE)
        else:
            child.stdin.close()
        while ready.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(child.args, timeout)
            for key, _ in ready.select(left):
                if key.fileobj is child.stdin:
                    pending = pending[_written(key.fd, pending) :]
                    if not pending:
                        ready.unregister(child.stdin)
                        child.stdin.close()
                elif data := os.read(key.fd, _CHUNK):
                    kept[key.fd].take(data)
                else:
                    ready.unregister(key.fileobj)
    output, errors = kept.values()
    child.wait(max(0.0, deadline - time.monotonic()))
    return output, errors


def _written(pipe: int, data: memoryview) -> int:
    """Return how many bytes the pipe accepted; all of them if its reader is gone."""
    try:
        return os.write(pipe, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)
