"""Where Python looks for modules: not in the current folder, in no process of ours.

Whoever may write to the folder that a command is typed in could else let a `json.py` of theirs run in it.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

_SAFE_PATH = "PYTHONSAFEPATH"
_PATH = "PYTHONPATH"


def leave_out_current_folder() -> None:
    """Take the current folder out of this process's search, and out of that of every Python it starts.

    It comes in by `python -m`, and by an empty or relative entry of PYTHONPATH. Where the user's PYTHONPATH
    names it in full, it stays.
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
        here = ""  # asked for; or the toolchain itself lies there, uninstalled
    # What comes after the standard library is an installation's own, wherever a command is typed.
    library = sysconfig.get_path("stdlib")
    end = sys.path.index(library) if library in sys.path else len(sys.path)
    sys.path[:] = [entry for entry in absolute(sys.path[:end]) if entry != here] + absolute(sys.path[end:])


def environment() -> dict[str, str]:
    """Return the environment for a Python of ours that shall find what this one finds."""
    return {**os.environ, _SAFE_PATH: "1", _PATH: os.pathsep.join(absolute(sys.path))}


def absolute(entries: list[str]) -> list[str]:
    """Return the entries that mean the same in every folder."""
    return [entry for entry in entries if Path(entry).is_absolute()]
