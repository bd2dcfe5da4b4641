"""A terminal for the commands to draw on."""

from __future__ import annotations

import io
import os
import pty
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from toolchain.cli import terminal


class Screen:
    """A terminal, and what was sent to it."""

    def __init__(self) -> None:
        self.reading, writing = pty.openpty()
        self.stream = io.TextIOWrapper(io.FileIO(writing, "w"), encoding="utf-8", write_through=True)

    def shows(self) -> str:
        os.set_blocking(self.reading, False)
        said = b""
        while True:
            try:
                said += os.read(self.reading, 1 << 16)
            except BlockingIOError:
                return said.decode()


@contextmanager
def screen() -> Iterator[Screen]:
    """Let standard output and error be a terminal. No fixture: pytest sets both anew before the test."""
    found = Screen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", found.stream)
        patch.setattr(sys, "stderr", found.stream)
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", "200")
        with terminal.escape_streams():
            yield found
    found.stream.close()
    os.close(found.reading)
