"""Environment variables for a command of this package in a container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.configuration.settings import cache_dir
from toolchain.images.running.inside import IMAGE_VARIABLE, LOCK_VARIABLE

if TYPE_CHECKING:
    from toolchain.images.running.placement import Ready


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
