"""What records of a VTA hold."""

from __future__ import annotations

KINDS = ("vta",)
"""The kind of a record whose payload is `Knobs`."""
