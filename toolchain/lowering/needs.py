"""What code needs of the program that runs it."""

from __future__ import annotations

from toolchain.bundles.manifest import RuntimeNeeds
from toolchain.targets.target import BoardTarget


def needs_of(target: BoardTarget) -> RuntimeNeeds:
    """Return what code for a target needs of the program that runs it: a device, if one computes."""
    return RuntimeNeeds(devices=(target.limits.kind,)) if target.limits else RuntimeNeeds()
