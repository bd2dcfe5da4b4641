"""The grammar of names in registries (the reference grammar of OCI's distribution specification 1.1)."""

from __future__ import annotations

HOST = r"(?:localhost|localhost:\d{1,5}|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d{1,5})?|[A-Za-z0-9-]+:\d{1,5})"
"""A registry. A first part with neither dot nor port means a user of Docker's own registry instead."""

_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
PATH = rf"{_WORD}(?:/{_WORD})*"
"""A repository within a registry."""
