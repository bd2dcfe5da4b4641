"""The files that a distribution is made of: those that git knows, and nothing else of the checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
_GIT_S = 60


def git(*arguments: str, root: Path = ROOT) -> str:
    """Return what a git command prints about a checkout.

    Raises
    ------
    subprocess.CalledProcessError
        Git failed; what it said is on stderr.
    """
    done = subprocess.run(
        ["git", "-C", str(root), *arguments],
        stdout=subprocess.PIPE,
        text=True,
        timeout=_GIT_S,
        check=True,
    )
    return done.stdout


def changes(root: Path = ROOT) -> list[str]:
    """Return what differs from the commit: changed files, and new ones that git does not ignore."""
    return git("status", "--porcelain", root=root).splitlines()


def epoch(root: Path = ROOT) -> int:
    """Return when the commit was made, in seconds since 1970."""
    return int(git("log", "-1", "--format=%ct", root=root))


def copy_tree(target: Path, root: Path = ROOT) -> Path:
    """Copy the checkout as it is now, without what git ignores, and return the copy."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", root=root)
    for name in filter(None, listed.split("\0")):
        source = root / name
        if source.is_file():  # else it was deleted and that is not committed yet
            copy = target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    return target
