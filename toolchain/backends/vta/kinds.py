"""The kinds of records of a VTA."""

from __future__ import annotations

KINDS = ("vta",)
"""Kind of a record whose payload is `Knobs`."""
