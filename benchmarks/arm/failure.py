"""The one error of these scripts, and how they run other programs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

_SECONDS = 1800.0


class ArmError(Exception):
    """Something cannot be counted or judged here; the words are the reason."""


def run(argv: Sequence[str | Path], **env: str) -> str:
    """Return what a program printed.

    Raises
    ------
    ArmError
        It is not there, failed, or took half an hour; the words are its last line.
    """
    name = Path(argv[0]).name
    try:
        done = subprocess.run(
            [str(word) for word in argv],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env=os.environ | env,
        )
    except FileNotFoundError as error:
        raise ArmError(f"no {argv[0]} on this machine: `tools/deps.sh counts` installs it") from error
    except subprocess.TimeoutExpired as error:
        raise ArmError(f"{name} took longer than {_SECONDS:.0f} s") from error
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines()
        raise ArmError(f"{name}: {said[-1][-300:] if said else f'ended with {done.returncode}'}")
    return done.stdout
