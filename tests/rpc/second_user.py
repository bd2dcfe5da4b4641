"""Another user of this machine, for tests that root runs."""

from __future__ import annotations

import encodings.idna  # noqa: F401 - the first connection imports it, and the other user may not read it
import os
import pickle
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import rpc_frames as rpc
from toolchain.rpc import frames
from toolchain.rpc.frames import HOST, TrackerCode

UID = 65534  # nobody


def needs_a_second_user() -> None:
    """Skip where there can't be one; CI runs as root."""
    if os.getuid() != 0:
        if os.environ.get("CI"):
            pytest.fail("these tests need root, to become another user")
        pytest.skip("only root becomes another user")


def as_second_user(work: Callable[[], Any]) -> Any:
    """Return what `work` returns in a process of another user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(UID)
            os.setuid(UID)
            os.write(writing, pickle.dumps(work()))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


def answers(port: int) -> bytes:
    """Return what a port says to a tracker's client, and to a session's."""
    said = b""
    for words in (
        frames.MAGIC + frames.encode([TrackerCode.SUMMARY]),
        rpc.greeting(b"client:x"),
    ):
        with suppress(OSError), socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(words)
            said += connection.recv(4096)
    return said


def entered(folder: Path) -> list[str]:
    """Return what can be seen of a folder's content."""
    try:
        return [entry.name for entry in folder.iterdir()]
    except PermissionError:
        return []
