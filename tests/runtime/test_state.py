"""The state folder: nobody else looks into it or writes to it, and what stands in it is not believed."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.conftest import Case, Edge

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

BUSY = 75


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def serve_in(native: Edge, state: Path) -> tuple[int, Any]:
    """Begin to serve, up to a port that is taken."""
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = str(occupied.getsockname()[1])
        return native("serve", "--tracker", "127.0.0.1:1", "--key", "k", "--port", port, "--state", state)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o277])
def test_state_folders_are_private_whatever_the_umask(
    native: Edge, dense: Case, tmp_path: Path, mask: int
) -> None:
    state = tmp_path / "above" / "state"
    with umask(mask):
        code, answer = serve_in(native, state)
        assert (code, answer["error"]["kind"]) == (1, "listen")
        arguments = [*dense.arguments[:-1], state]
        code, answer = native("bench", *arguments, "--number", "1", "--repeat", "1", "--warmup", "0")
        assert code == 0, answer
    assert [mode(folder) for folder in (state.parent, state, state / "sessions")] == [0o700] * 3
    assert mode(state / "measure.lock") == 0o600


def test_existing_folder_keeps_its_mode(native: Edge, tmp_path: Path) -> None:
    (tmp_path / "state" / "sessions").mkdir(parents=True)
    for folder in (tmp_path / "state", tmp_path / "state" / "sessions"):
        folder.chmod(0o755)
    assert serve_in(native, tmp_path / "state")[1]["error"]["kind"] == "listen"
    assert (mode(tmp_path / "state"), mode(tmp_path / "state" / "sessions")) == (0o755, 0o700)


def test_refuses_foreign_state_folders(native: Edge, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)
    code, answer = serve_in(native, state)
    assert (code, answer["error"]["kind"]) == (1, "state")
    assert f"`chmod go-w {state}`" in answer["error"]["message"]
    state.chmod(0o700)
    (tmp_path / "elsewhere").mkdir()
    (state / "sessions").symlink_to(tmp_path / "elsewhere")
    assert "is no folder" in serve_in(native, state)[1]["error"]["message"]
    if os.geteuid() == 0:
        os.chown(state, 65534, 65534)
        assert "belongs to user id 65534, this is 0" in serve_in(native, state)[1]["error"]["message"]


def test_lock_file_that_is_a_link_is_not_followed(native: Edge, dense: Case, tmp_path: Path) -> None:
    state, victim = tmp_path / "state", tmp_path / "victim"
    state.mkdir(mode=0o700)
    victim.write_text("keep me")
    (state / "measure.lock").symlink_to(victim)
    code, answer = native("bench", *dense.arguments)
    assert (code, answer["error"]["kind"]) == (1, "io")
    assert victim.read_text() == "keep me"


@pytest.mark.parametrize(
    ("line", "holder"),
    [
        ('{"pid": 7, "what": "run a \\"b\\" \\u0007"}', {"pid": 7, "what": 'run a "b" \x07'}),
        ('{"pid": 7, "what": "x"}, "code": {"a": 1}', None),
        ('{"pid": 7, "what": "x", "more": 1}', None),
        ('{"pid": 7, "what": "\x1b[31mred"}', None),
        ('{"pid": 7, "what": "\\x"}', None),
        ('{"pid": 7, "what": "\xff"}', None),
        ('{"pid": 7, "what": "unfinished', None),
        ("}", None),
        ("", None),
    ],
)
def test_invalid_holder_is_ignored(
    native: Edge, dense: Case, tmp_path: Path, line: str, holder: dict[str, Any] | None
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    with (state / "measure.lock").open("w", encoding="latin-1") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line + "\n")
        file.flush()
        code, answer = native("bench", *dense.arguments)
    assert (code, answer["error"]["holder"]) == (BUSY, holder)
