"""Debian's docker-registry on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.boards.ssh.sshd import free_port
from tests.waiting import PATIENCE_S

_UNPACKED = Path(__file__).parents[2] / ".venv" / "docker-registry" / "usr" / "bin"  # by tools/servers.sh


@contextmanager
def docker_registry(folder: Path, *, auth: str = "", tls: str = "") -> Iterator[int]:
    """Start a registry that keeps its images in `folder`; yield its port.

    Parameters
    ----------
    auth, tls
        Those parts of its configuration, in YAML.
    """
    program = shutil.which("docker-registry", path=f"{os.environ['PATH']}{os.pathsep}{_UNPACKED}")
    assert program, "no docker-registry here: tools/servers.sh unpacks one"
    port = free_port()
    lines = [
        "version: 0.1",
        "log: {level: error, accesslog: {disabled: true}}",
        f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}",
        f"http: {{addr: '127.0.0.1:{port}'{f', tls: {tls}' if tls else ''}}}",
        f"auth: {auth}" if auth else "",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yml").write_text("\n".join(lines) + "\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", folder / "config.yml"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert process.poll() is None, (folder / "log").read_text()
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert time.monotonic() < deadline, "docker-registry does not answer"
            time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.wait(60)
