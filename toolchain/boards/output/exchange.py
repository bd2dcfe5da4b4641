"""Input to a child process, and what it prints in return."""

from __future__ import annotations

import os
import selectors
import subprocess
import time

from toolchain.boards.output.kept import MOST_ERRORS, MOST_OUTPUT, Kept

_CHUNK = 1 << 16


def exchange(child: subprocess.Popen[bytes], input: bytes, timeout: float) -> tuple[Kept, Kept]:
    """Send a child its input and read its output until it ends, keeping no more of it than `Kept` does.

    Returns
    -------
    tuple
        Its standard output and its standard error; it has ended.

    Raises
    ------
    subprocess.TimeoutExpired
        It has not ended, or something still holds its output, after `timeout` seconds.
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
    """Return how many bytes the pipe took; all of them where nobody reads any more."""
    try:
        return os.write(pipe, data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)
