"""A linker as a process: ended with its children."""

from __future__ import annotations

import os
import time

import psutil
import pytest

from tests.waiting import until
from toolchain.errors import ToolchainError
from toolchain.linking.zig import run


@pytest.mark.slow
def test_hanging_linker_is_killed_with_its_children() -> None:
    word = f"77.{os.getpid()}"  # others may run this test at the same time
    start = time.monotonic()
    with pytest.raises(ToolchainError, match=r"sh had not ended after 0\.3 s"):
        run(["sh", "-c", f"sleep {word} & sleep {word}"], 0.3)
    assert time.monotonic() - start < 60

    def lives() -> bool:
        return any(word in (process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))

    until(lambda: not lives())
