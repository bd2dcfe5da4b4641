"""Interactive containers: a person's shell, and a program that talks over standard input and output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any, Self

from toolchain.errors import MissingError, ToolchainError
from toolchain.images.engine import Engine
from toolchain.images.running.step import Step, create, sweep
from toolchain.processes.interrupts import uninterrupted

# A shell in an image: Docker's own command line connects the keyboard to a step's container.

_ENDS_SECONDS = 20.0


def check_terminal() -> str:
    """Check that a terminal is attached; return the path of Docker's command line, which needs one.

    Raises
    ------
    MissingError
        Docker's command line is not installed, or no terminal is attached.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise MissingError(
            "a shell needs a terminal, and standard input or output is none",
            "for a command without one: `toolchain build … --engine docker`",
        )
    program = shutil.which("docker")
    if program is None:
        raise MissingError(
            "no 'docker' command on this machine: the shell needs it",
            "apt-get install docker.io, from Debian 13 on docker-cli",
        )
    return program


def run_shell(engine: Engine, step: Step) -> int:
    """Run an interactive step and remove its container; return its exit code.

    Raises
    ------
    MissingError
        See `check_terminal`.
    ToolchainError
        The container cannot be made.
    """
    program = check_terminal()
    sweep(engine)
    with ExitStack() as stack:
        with uninterrupted():  # else an interruption would leave an unknown container
            container = create(engine, step, interactive=True)
            stack.callback(engine.remove, container)
        return _attach([program, "--host", engine.where, "start", "--attach", "--interactive", container])


def _attach(command: list[str]) -> int:
    environment = {name: value for name, value in os.environ.items() if name != "DOCKER_CONTEXT"}
    with subprocess.Popen(command, env=environment) as client:
        try:
            return client.wait()
        except BaseException:
            client.terminate()  # and not killed: it gives the terminal back its settings
            try:
                client.wait(_ENDS_SECONDS)
            except subprocess.TimeoutExpired:
                client.kill()
            raise


_OUT, _ERR = 1, 2  # streams, as Docker numbers them
_HEADER = 8  # bytes before each piece of a stream: its number, three zeros, its length
_KEPT = 4096  # bytes of its standard error
_PIECE = 1 << 16


class Conversation:
    """A step's container as a context manager; it runs for the duration of the block.

    Its command should exit at the end of its input, which it sees if this process is killed. If it does not,
    the next step removes it.

    Raises
    ------
    ToolchainError
        The container cannot be created or started.
    """

    def __init__(self, engine: Engine, step: Step) -> None:
        self._engine, self._step = engine, step
        self._socket: Any = None
        self._read = b""
        self._said = b""
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        api = self._engine.api
        sweep(self._engine)
        with ExitStack() as stack:
            with uninterrupted():  # else an interruption would leave an unknown container
                container = create(self._engine, self._step, interactive=True)
                stack.callback(self._engine.remove, container)
                with self._engine.request("talk to a container"):
                    streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
                    attached = stack.enter_context(api.attach_socket(container, params=streams))
                    self._socket = attached._sock  # what the SDK gives can only be read from
                    api.start(container)
            self._ending = stack.pop_all()
        return self

    def __exit__(self, *_ended: object) -> None:
        self._ending.close()

    def write(self, data: bytes, seconds: float) -> None:
        """Send bytes to the command's standard input.

        Raises
        ------
        ToolchainError
            The command ended, or does not read within that time.
        """
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(data)
        except OSError as error:
            raise self._over("does not listen") from error

    def read_line(self, seconds: float) -> str:
        """Return the next line of its standard output, without its end; see `read`."""
        until = time.monotonic() + seconds
        while b"\n" not in self._read:
            self._receive(until)
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")

    def read(self, count: int, seconds: float) -> bytes:
        """Return the next bytes of its standard output.

        Raises
        ------
        ToolchainError
            The command ended first, or the time was up.
        """
        until = time.monotonic() + seconds
        pieces, have = [self._read], len(self._read)
        while have < count:
            self._read = b""
            self._receive(until)
            pieces.append(self._read)
            have += len(self._read)
        data = b"".join(pieces)
        self._read = data[count:]
        return data[:count]

    def _receive(self, until: float) -> None:
        """Append the next piece of its output to the buffer of its stream."""
        header = self._exactly(_HEADER, until)
        data = self._exactly(int.from_bytes(header[4:], "big"), until)
        if header[0] == _OUT:
            self._read += data
        elif header[0] == _ERR:
            self._said = (self._said + data)[-_KEPT:]

    def _exactly(self, count: int, until: float) -> bytes:
        data = bytearray()
        while len(data) < count:
            left = until - time.monotonic()
            if left <= 0:
                raise self._over("does not answer")
            try:
                self._socket.settimeout(left)
                piece = self._socket.recv(min(_PIECE, count - len(data)))
            except TimeoutError:
                continue
            except OSError as error:
                raise self._over("is gone") from error
            if not piece:
                raise self._over("ended")
            data += piece
        return bytes(data)

    def _over(self, how: str) -> ToolchainError:
        message = self._said.decode(errors="replace").strip()
        return ToolchainError(
            f"the container of {self._step.image_name} {how}" + (f": {message}" if message else ""),
            "run it again",
        )
