"""Moments as text."""

from __future__ import annotations

from datetime import UTC, datetime


def day(moment: int) -> str:
    """Return a moment in seconds since 1970 as text, in UTC."""
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError):
        return f"{moment} s after 1970"
