"""Environment variables for a command of this package in a container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.configuration.settings import cache_dir
from toolchain.images.running.inside import IMAGE_VARIABLE, LOCK_VARIABLE

if TYPE_CHECKING:
    from toolchain.images.running.placement import Ready


def environment(image: Ready | None = None) -> dict[str, str]:
    """Return the variables; only the cache folder is this host's.

    Parameters
    ----------
    image
        The image, if its id and lock file shall be known to the command.
    """
    needed = {
        "HOME": "/tmp",  # noqa: S108
        "PYTHONUNBUFFERED": "1",  # its output is ours, as it comes
        "TOOLCHAIN_ENGINE": "host",
        "TOOLCHAIN_CACHE_DIR": str(cache_dir().absolute()),
    }
    return {**needed, IMAGE_VARIABLE: image.id, LOCK_VARIABLE: image.lock} if image else needed
