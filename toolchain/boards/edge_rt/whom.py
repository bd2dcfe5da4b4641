"""Says who measures, for those that wait for a board."""

from __future__ import annotations

import getpass
import os
import re
import socket

_LONGEST = 64  # characters that edge-rt takes
_FOREIGN = re.compile(r"[^A-Za-z0-9._@-]+")


def user_at_host() -> str:
    """Return this user and this host as one word of at most 64 plain letters: `anna@desk`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user: in a container
        user = f"user-{os.getuid()}"
    return _FOREIGN.sub("-", f"{user}@{socket.gethostname()}")[:_LONGEST]
