"""Kinds of failures of a candidate."""

from __future__ import annotations

from typing import Literal

Failure = Literal["build", "link", "upload", "timeout", "runtime", "wrong result", "work group", "registers"]
"""`build`: no compiler takes it, this host's or a driver's. `work group`, `registers`: a group has more work
items than the device takes, or than it has registers for."""
