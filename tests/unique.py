"""A word for names in places that processes share, such as a Docker engine's images and containers."""

from __future__ import annotations

import secrets

UNIQUE = secrets.token_hex(5)
"""No other process has it; the number of a process has another one, too, in another container or later."""
