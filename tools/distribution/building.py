"""Builds wheel and sdist: equal sources give equal bytes, wherever and whenever they are built."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_BUILD_S = 300


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
    """
    _hatchling(source, out, made, "wheel", "sdist")
    return Packages(_only(out, "*.whl"), _only(out, "*.tar.gz"))


def build_wheel(source: Path, out: Path, made: int) -> Path:
    """Build the wheel alone."""
    _hatchling(source, out, made, "wheel")
    return _only(out, "*.whl")


def _hatchling(source: Path, out: Path, made: int, *targets: str) -> None:
    own = {"SOURCE_DATE_EPOCH": str(made), "PYTHONSAFEPATH": "1"}
    wanted = [word for target in targets for word in ("--target", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *wanted, "--directory", str(out)],
        cwd=source,
        env={**os.environ, **own},
        stdout=subprocess.DEVNULL,
        timeout=_BUILD_S,
        check=True,
    )


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found
