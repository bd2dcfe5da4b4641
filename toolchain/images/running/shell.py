"""A shell in an image: Docker's own command line ties the keyboard to a step's container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack

from toolchain.errors import MissingError
from toolchain.images.engine import Engine
from toolchain.images.running.step import Step, create, sweep
from toolchain.processes.interrupts import uninterrupted

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
        with uninterrupted():  # or there is one that nobody knows
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
