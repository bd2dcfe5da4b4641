"""The kinds of failures of a candidate."""

from __future__ import annotations

from typing import Literal

Failure = Literal["build", "link", "upload", "timeout", "runtime", "wrong result", "work group", "registers"]
"""`build`: a compiler rejects the code, on this host or in a driver. `work group`: a work group has more
work items than the device accepts. `registers`: a work group needs more registers than the device has."""
