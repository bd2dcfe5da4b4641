"""Keeps the current folder out of Python's search path for modules, in this process and its children.

Otherwise anyone who may write to the folder in which a command is typed could run code, with a `json.py`.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

_SAFE_PATH = "PYTHONSAFEPATH"
_PATH = "PYTHONPATH"


def leave_out_current_folder() -> None:
    """Remove the current folder from this process's search path and from that of every Python it starts.

    `python -m` and an empty or relative entry of PYTHONPATH would add it. It stays if the user's PYTHONPATH
    has its absolute path.
    """
    os.environ[_SAFE_PATH] = "1"
    given = os.environ.get(_PATH)
    named = absolute((given or "").split(os.pathsep))
    if given is not None:
        os.environ[_PATH] = os.pathsep.join(named)
    try:
        here = str(Path.cwd())
    except FileNotFoundError:  # it was removed
        here = ""
    if here in named or here == str(Path(__file__).parents[2]):
        here = ""  # the user asked for it, or it is the toolchain's own checkout
    # Entries after the standard library belong to the installation and are the same in every folder.
    library = sysconfig.get_path("stdlib")
    end = sys.path.index(library) if library in sys.path else len(sys.path)
    sys.path[:] = [entry for entry in absolute(sys.path[:end]) if entry != here] + absolute(sys.path[end:])


def environment() -> dict[str, str]:
    """Return the environment for a child Python that must find the same modules as this process."""
    return {**os.environ, _SAFE_PATH: "1", _PATH: os.pathsep.join(absolute(sys.path))}


def absolute(entries: list[str]) -> list[str]:
    """Return the absolute paths among the entries."""
    return [entry for entry in entries if Path(entry).is_absolute()]
