"""Checks names of applications, which are folders on a board."""

from __future__ import annotations

import re

_FORM = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_FILES = frozenset({"lock", "trust.json", "trust.json.new"})


def is_app_name(name: str) -> bool:
    """Return whether edge-rt takes `name` for an application (`IsAppName` in native/src/field/place.cc)."""
    return _FORM.fullmatch(name) is not None and name not in _FILES
