"""A tracker in a process of its own, and a server that only registers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S
from toolchain.rpc import frames
from toolchain.rpc.client import TrackerClient
from toolchain.rpc.frames import TrackerCode


@contextmanager
def running_tracker(*arguments: str) -> Iterator[int]:
    """Run a tracker; yield its port."""
    program = [sys.executable, "-m", "toolchain.rpc.tracker", *arguments]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield json.loads(process.stdout.readline())["port"]
        finally:
            process.terminate()
            process.wait(timeout=60)


class Peer(TrackerClient):
    """A client that says what it is told to, and can be a server."""

    def say(self, *message: object) -> Any:
        return self._ask(PATIENCE_S, *message)

    def register(self, key: str, port: int = 9000) -> None:
        assert self.say(TrackerCode.UPDATE_INFO, {"key": f"server:{key}", "addr": [None, port]}) == 0
        self.offer(key, port)

    def offer(self, key: str, port: int = 9000, match_key: str = "") -> None:
        match_key = match_key or f"{key}:{time.monotonic()}"
        assert self.say(TrackerCode.PUT, key, [port, match_key], None) == 0


def raw(port: int) -> socket.socket:
    """Connect without a word."""
    return socket.create_connection((frames.HOST, port), timeout=60)


def listening(pids: set[int]) -> set[str]:
    """Return the addresses, in /proc's hexadecimal, at which these processes listen."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(link.readlink())
            except FileNotFoundError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[len("socket:[") : -1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(fields[1].split(":")[0])
    return found
