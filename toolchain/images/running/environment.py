"""Environment variables that a command in a container gets and reads: its image among them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from toolchain.configuration.settings import cache_dir

IMAGE_VARIABLE = "EDGE_TOOLCHAIN_IMAGE"  # the image's id
LOCK_VARIABLE = "EDGE_TOOLCHAIN_LOCK"  # sha256 of the requirements.lock that it was made from


def image_here() -> str | None:
    """Return the id of the image that this process runs in; None on a host."""
    return os.environ.get(IMAGE_VARIABLE) or None


def lock_here() -> str | None:
    """Return the sha256 of the lock file of the image that this process runs in; None on a host."""
    return os.environ.get(LOCK_VARIABLE) or None


@dataclass(frozen=True)
class Ready:
    """An image that steps can run in.

    Attributes
    ----------
    id
        Id of the image that had the tag when it was looked up.
    lock
        SHA-256 of the requirements.lock that it was made from.
    stale
        See `ImageState`.
    """

    name: str
    id: str
    lock: str
    stale: bool


def environment(image: Ready | None = None) -> dict[str, str]:
    """Return the environment variables that each command of this package gets in a container.

    The cache folder is that of this host, mounted under the same path; `HOME` is the container's own.

    Parameters
    ----------
    image
        The image, to tell the command its id and the digest of its lock file; None: do not tell.
    """
    needed = {
        "HOME": "/tmp",  # noqa: S108
        "PYTHONUNBUFFERED": "1",  # its output is ours, as it comes
        "TOOLCHAIN_ENGINE": "host",
        "TOOLCHAIN_CACHE_DIR": str(cache_dir().absolute()),
    }
    return {**needed, IMAGE_VARIABLE: image.id, LOCK_VARIABLE: image.lock} if image else needed
