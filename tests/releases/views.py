"""Folders of a test over those of this host, for one program and what it starts: the host has no change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_ENTER = """set -e
while [ "$1" != -- ]; do
  mount -t overlay overlay -o lowerdir="$2:$1" "$1"
  shift 2
done
shift
exec "$@"
"""


def seeing(views: Mapping[str, Path]) -> list[str]:
    """Return the words before a command that sees in a folder of the system what a test's adds to it."""
    enter = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount"]
    pairs = [word for place, folder in views.items() for word in (place, str(folder))]
    return [*enter, "sh", "-c", _ENTER, "sh", *pairs, "--"]
