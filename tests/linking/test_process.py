"""A linker as a process: ended with its children."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from toolchain.errors import ToolchainError
from toolchain.linking.process import run


@pytest.mark.slow
def test_a_linker_that_hangs_is_ended_with_its_children() -> None:
    start = time.monotonic()
    with pytest.raises(ToolchainError, match=r"sh had not ended after 0\.3 s"):
        run(["sh", "-c", "sleep 77.125 & sleep 77.125"], 0.3)
    assert time.monotonic() - start < 60
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"77.125" in line for line in lines)
