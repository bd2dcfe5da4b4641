"""Zig from PyPI, which needs no system package."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchain.configuration import settings as config
from toolchain.errors import MissingError, ToolchainError
from toolchain.processes.interrupts import uninterrupted

# Runs linkers as child processes with a timeout.

_LAST_LINES = 12  # lld names a symbol, its object and its section in three lines each


@dataclass(frozen=True)
class Ended:
    """Exit status and output of a child process that has ended."""

    returncode: int
    output: str

    def last_lines(self) -> str:
        """Return the last lines of the output, which usually name the cause of a failure."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return "\n".join(lines[-_LAST_LINES:]) or f"no message, exit status {self.returncode}"


def run(argv: Sequence[str], deadline_s: float, environment: Mapping[str, str] | None = None) -> Ended:
    """Run a program until it exits, and kill it with its children at the deadline.

    Parameters
    ----------
    argv
        Program and arguments.
    deadline_s
        Seconds after which it is killed.
    environment
        Variables to add to this process's own.

    Raises
    ------
    ToolchainError
        It was still running at the deadline.
    """
    child: subprocess.Popen[bytes] | None = None
    try:
        with uninterrupted():
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # so that the children of a compiler driver can be killed too
            )
        output, _ = child.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        raise ToolchainError(
            f"{argv[0]} had not ended after {deadline_s:g} s and was stopped",
            "run the same command again when the machine is less busy",
        ) from None
    finally:
        if child is not None and child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
    return Ended(child.returncode, output.decode(errors="replace"))


def zig_program() -> Path:
    """Return the zig executable of the `ziglang` package.

    Raises
    ------
    MissingError
        The package is not installed, or its executable is gone.
    """
    spec = importlib.util.find_spec("ziglang")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / "zig").is_file():
            return Path(folder) / "zig"
    raise MissingError(
        "zig, which links libraries for boards, is not installed", "pip install ziglang==0.17.0"
    )


def zig_cache_environment(folder: Path | None = None) -> dict[str, str]:
    """Return the environment variables that put zig's cache into a folder; None: inside our cache."""
    cache = str(folder or config.cache_dir() / "zig")
    return {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}


def run_zig(
    arguments: Sequence[str], deadline_s: float, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run zig until it exits.

    Raises
    ------
    MissingError
        zig is not installed.
    ToolchainError
        zig was still running at the deadline and was killed.
    """
    return run([str(zig_program()), *arguments], deadline_s, environment)
