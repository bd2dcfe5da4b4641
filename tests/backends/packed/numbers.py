"""Numbers out of generated code."""

from __future__ import annotations

from typing import Any


def number(expr: Any) -> int:
    """Return the value of a constant expression; what else there is of expressions has no `__int__`."""
    return int(expr)
