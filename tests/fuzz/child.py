"""A process that answers case after case, with sanitizers' options; started again where it has ended."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.fuzz.sanitized import OPTIONS
from tests.waiting import PATIENCE_S
from toolchain.processes.deadline import killed_after


class Child:
    """Ended with its block.

    Parameters
    ----------
    words
        Where what it says of errors is kept.
    """

    def __init__(self, argv: Sequence[str | Path], words: Path) -> None:
        self._argv, self._words = argv, words
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def ask(self, request: bytes, head: int, rest: Callable[[bytes], int]) -> tuple[bytes, bytes]:
        """Return an answer's head, of so many bytes, and as many behind it as `rest` makes of the head.

        Raises
        ------
        AssertionError
            It ended, or does not answer; with what it said.
        """
        process = self._process or self._start()
        assert process.stdin and process.stdout
        with killed_after(PATIENCE_S, process) as late:
            with suppress(BrokenPipeError):
                process.stdin.write(request)
                process.stdin.flush()
            first = process.stdout.read(head)
            size = rest(first) if len(first) == head else 1
            data = process.stdout.read(size)
        if len(data) == size:
            return first, data
        code = self.end()
        said = "it gave no answer" if late.is_set() else f"it ended with {code}"
        raise AssertionError(f"{said}: {self._words.read_text(errors='replace')}")

    def end(self) -> int | None:
        """Let it end; return its code."""
        process, self._process = self._process, None
        if process is None:
            return None
        with killed_after(PATIENCE_S, process), process:  # closes its pipes, waits
            pass
        return process.returncode

    def _start(self) -> subprocess.Popen[bytes]:
        with self._words.open("wb") as stderr:
            pipe, environment = subprocess.PIPE, {**os.environ, **OPTIONS}
            self._process = subprocess.Popen(
                self._argv, stdin=pipe, stdout=pipe, stderr=stderr, env=environment
            )
        return self._process
