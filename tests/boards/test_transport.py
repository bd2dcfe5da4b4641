"""What all transports share: paths inside the board's folder, and how a command ended."""

from __future__ import annotations

import signal
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.boards.transport import Completed, checked_path
from toolchain.errors import UsageError

PART = st.sampled_from(["..", ".", "", "a", "b.so", "...", "..a", "\0", "/", "~"]) | st.text(max_size=4)


@given(st.lists(PART, max_size=6).map("/".join))
def test_a_path_that_passes_stays_in_the_folder_however_it_is_joined(remote: str) -> None:
    try:
        path = checked_path(remote)
    except UsageError as refused:
        assert repr(remote) in refused.message and refused.hint
        return
    depth = 0
    for part in remote.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        assert depth >= 0
    assert depth == len(path.parts) > 0 and "\0" not in remote
    joined = PurePosixPath("/board") / path
    assert joined.parts[:2] == ("/", "board") and len(joined.parts) == 2 + depth


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, None),
        (139, None),  # what a shell says of a child; ours would be -11
        (-signal.SIGSEGV, "SIGSEGV"),
        (-signal.SIGKILL, "SIGKILL"),
        (-40, "signal 40"),  # a real-time one, which Python has no name for
    ],
)
def test_a_signal_is_named(code: int, name: str | None) -> None:
    assert Completed(("x",), code, b"", b"").signal_name == name
