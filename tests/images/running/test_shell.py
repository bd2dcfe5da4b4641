"""A shell in an image, at a terminal of the test's own."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from toolchain.errors import MissingError
from toolchain.images.catalogue import image_named
from toolchain.images.debian.system import ensure_system
from toolchain.images.engine import LABEL, Engine
from toolchain.images.running import conversation as shell
from toolchain.images.running.conversation import check_terminal
from toolchain.images.running.step import Step

SHELL = """
import signal, sys
from pathlib import Path
from toolchain.images.engine import connect
from toolchain.images.running.mounts import Mount
from toolchain.images.running.conversation import run_shell
from toolchain.images.running.step import Step
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
here = Path.cwd()
image, = sys.argv[1:]
step = Step(image, ["/bin/bash", "--norc"], here, [Mount(here, True)], {"PS1": "ready> "}, terminal=True)
with connect() as engine:
    sys.exit(run_shell(engine, step))
"""


class Terminal:
    """What a user sees and types."""

    def __init__(self, end: int, process: subprocess.Popen[bytes]) -> None:
        self.end, self.process, self.seen = end, process, b""

    def type(self, text: str) -> None:
        os.write(self.end, text.encode())

    def wait_for(self, text: str) -> None:
        self._read(lambda: text.encode() in self.seen)

    def ended(self) -> int:
        self._read(lambda: self.process.poll() is not None)
        return self.process.wait()

    def _read(self, enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        os.set_blocking(self.end, False)
        while not enough():
            assert time.monotonic() < deadline, self.seen
            try:
                self.seen += os.read(self.end, 4096)
            except (BlockingIOError, OSError):  # nothing yet; the other end is closed
                time.sleep(0.02)


@contextmanager
def terminal(folder: Path, image: str) -> Iterator[Terminal]:
    controller, terminal_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SHELL, image],
        cwd=folder,
        stdin=terminal_end,
        stdout=terminal_end,
        stderr=terminal_end,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    os.close(terminal_end)
    try:
        yield Terminal(controller, process)
    finally:
        process.kill()
        process.wait(60)
        os.close(controller)


@pytest.fixture
def image(engine: Engine) -> str:
    return ensure_system(engine, image_named("board-amd64"), print)


def left(engine: Engine, folder: Path) -> list[str]:
    """Return the containers that have a folder."""
    containers = engine.api.containers(all=True, filters={"label": f"{LABEL}=step"})
    return [c["Id"] for c in containers if any(m.get("Source") == str(folder) for m in c["Mounts"])]


@pytest.mark.slow
def test_shell_runs_typed_commands_as_the_caller(engine: Engine, image: str, tmp_path: Path) -> None:
    with terminal(tmp_path, image) as screen:
        screen.wait_for("ready> ")
        screen.type("echo $((6 * 7)) > out; touch /usr/mine; ls /sys/class/net; exit 3\n")
        assert screen.ended() == 3
    assert (tmp_path / "out").read_text() == "42\n" and (tmp_path / "out").stat().st_uid == os.getuid()
    assert b"Read-only file system" in screen.seen
    assert b"eth0" not in screen.seen and b"lo" in screen.seen
    assert left(engine, tmp_path) == []


@pytest.mark.slow
def test_ctrl_c_reaches_the_shell_and_sigterm_ends_it(engine: Engine, image: str, tmp_path: Path) -> None:
    with terminal(tmp_path, image) as screen:
        screen.wait_for("ready> ")
        screen.type("sleep 600\n")
        time.sleep(0.5)
        screen.type("\x03")
        screen.type("echo so $((40 + 2))\n")
        screen.wait_for("so 42")
        assert len(left(engine, tmp_path)) == 1
        screen.process.send_signal(signal.SIGTERM)
        assert screen.ended() == 7
    assert left(engine, tmp_path) == []


def test_ctrl_c_during_creation_leaves_no_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    removed: list[str] = []

    class Daemon:
        remove = staticmethod(removed.append)

    def create(*_: object, **__: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "made"

    monkeypatch.setattr(shell, "check_terminal", lambda: "docker")
    monkeypatch.setattr(shell, "sweep", lambda _: None)
    monkeypatch.setattr(shell, "create", create)
    with pytest.raises(KeyboardInterrupt):
        shell.run_shell(cast(Engine, Daemon()), Step("image", ["/bin/bash"], tmp_path, []))
    assert removed == ["made"]


def test_a_shell_without_a_terminal_is_refused() -> None:
    with pytest.raises(MissingError, match="a shell needs a terminal"):  # pytest's own input is none
        check_terminal()


@pytest.mark.slow
def test_missing_docker_command_is_reported(tmp_path: Path) -> None:
    controller, terminal_end = pty.openpty()
    code = "from toolchain.images.running.conversation import check_terminal\n"
    code += "try: check_terminal()\nexcept Exception as e: print(e)"
    subprocess.run(
        [sys.executable, "-c", code],
        stdin=terminal_end,
        stdout=terminal_end,
        timeout=60,
        check=True,
        env={**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert b"no 'docker' command on this machine" in os.read(controller, 4096)
    os.close(terminal_end)
    os.close(controller)
