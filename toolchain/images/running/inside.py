"""Facts about the image in which this process runs."""

from __future__ import annotations

import os

IMAGE_VARIABLE = "EDGE_TOOLCHAIN_IMAGE"  # the image's id
LOCK_VARIABLE = "EDGE_TOOLCHAIN_LOCK"  # sha256 of the requirements.lock that it was made from


def image_here() -> str | None:
    """Return the id of the image that this process runs in; None on a host."""
    return os.environ.get(IMAGE_VARIABLE) or None


def lock_here() -> str | None:
    """Return the sha256 of the lock file of the image that this process runs in; None on a host."""
    return os.environ.get(LOCK_VARIABLE) or None
