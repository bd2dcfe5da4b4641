"""What a command line of this package needs of the environment in a container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolchain.configuration.settings import cache_dir
from toolchain.images.running.inside import IMAGE_VARIABLE, LOCK_VARIABLE

if TYPE_CHECKING:
    from toolchain.images.running.placement import Ready


def environment(image: Ready | None = None) -> dict[str, str]:
    """Return it: nothing but the cache is this host's.

    Parameters
    ----------
    image
        What a program can learn of its image; None: nothing.
    """
    needed = {
        "HOME": "/tmp",  # noqa: S108
        "PYTHONUNBUFFERED": "1",  # its output is ours, as it comes
        "TOOLCHAIN_ENGINE": "host",
        "TOOLCHAIN_CACHE_DIR": str(cache_dir().absolute()),
    }
    return {**needed, IMAGE_VARIABLE: image.id, LOCK_VARIABLE: image.lock} if image else needed
