"""Our numbers over a peer's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Contenders = Mapping[str, Mapping[str, Any]]


def ratio(contenders: Contenders, peer: str, key: str = "min_ms") -> float | None:
    """Return ours / the peer's (below 1: we are faster, smaller); None where one of them has no number."""
    ours, theirs = (contenders.get(name, {}).get(key) for name in ("ours", peer))
    return ours / theirs if ours and theirs else None


def fastest(contenders: Contenders, key: str = "min_ms") -> str | None:
    """Return the peer with the least time; None where no peer has one."""
    times = {name: entry[key] for name, entry in contenders.items() if name != "ours" and key in entry}
    return min(times, key=lambda name: times[name]) if times else None
