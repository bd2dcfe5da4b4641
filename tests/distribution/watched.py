"""A fresh environment that writes down what its Pythons read of this checkout."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.distribution.fresh import Fresh
from tools.distribution.tree import ROOT

_WATCH = """
import os, sys
def watch(event, arguments):
    if event not in ("open", "os.listdir", "os.scandir"):
        return
    name = arguments[0]
    name = os.fsdecode(name) if isinstance(name, (str, bytes)) else ""
    if name.startswith({clone!r}) and not name.startswith({allowed!r}):
        with open({log!r}, "a") as file:
            file.write(name + "\\n")
sys.addaudithook(watch)
"""


def watch(fresh: Fresh) -> Path:
    """Let every Python of an environment note the files of this checkout that it opens; return the notes.

    The virtual environment that lies in the checkout is not meant: its packages are installed ones.
    """
    log = fresh.folder / "opened"
    text = _WATCH.format(clone=f"{ROOT}/", allowed=f"{sys.prefix}/", log=str(log))
    (fresh.packages / "clone_watch.py").write_text(text)
    (fresh.packages / "clone_watch.pth").write_text("import clone_watch\n")
    return log
