"""Builds wheel and sdist: equal sources give equal bytes, wherever and whenever they are built."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_BUILD_S = 300


class BuildError(Exception):
    """A package cannot be built; says what the build backend said."""


@dataclass(frozen=True)
class Packages:
    """The two files that a registry would have."""

    wheel: Path
    sdist: Path


def build_packages(source: Path, out: Path, made: int) -> Packages:
    """Build wheel and sdist from a folder of sources into `out`.

    Parameters
    ----------
    made
        The time that both say of every file, in seconds since 1970.

    Raises
    ------
    BuildError
        The sources cannot be built.
    """
    _hatchling(source, out, made, "wheel", "sdist")
    return Packages(_only(out, "*.whl"), _only(out, "*.tar.gz"))


def build_wheel(source: Path, out: Path, made: int) -> Path:
    """Build the wheel alone."""
    _hatchling(source, out, made, "wheel")
    return _only(out, "*.whl")


def _hatchling(source: Path, out: Path, made: int, *targets: str) -> None:
    wanted = [word for target in targets for word in ("--target", target)]
    command = [sys.executable, "-m", "hatchling", "build", *wanted, "--directory", str(out)]
    run_builder(command, source, made, f"hatchling cannot build {source}", PYTHONSAFEPATH="1")


def run_builder(command: list[str], folder: Path, made: int, failure: str, **environment: str) -> None:
    """Run a program that builds a part of a distribution.

    Parameters
    ----------
    folder
        The folder that it runs in.
    made
        The time that it says of what it writes, in seconds since 1970.
    failure
        What an error begins with; the program's last line follows.

    Raises
    ------
    BuildError
        The program failed.
    """
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(made), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_BUILD_S,
        check=False,
    )
    if done.returncode != 0:
        said = done.stdout.strip().splitlines() or ["it said nothing"]
        raise BuildError(f"{failure}: {said[-1]}")


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found
