"""Labels of images: our own, and those of the Open Container Initiative."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from toolchain import __version__
from toolchain.images.catalogue import Image
from toolchain.images.contents.sources import (
    ANNOTATION,
    FOUNDATION_LABEL,
    LOCK_LABEL,
    lock_digest,
    sources_digest,
)
from toolchain.images.engine import ARGUMENTS_LABEL, IMAGE_LABEL, LABEL, SOURCES_LABEL, Engine

_GIT_SECONDS = 10.0


def labels_of(engine: Engine, image: Image, foundation: str, arguments: Iterable[str] = ()) -> dict[str, str]:
    """Return the labels for a new image on the base image `foundation`, which the engine has.

    Parameters
    ----------
    arguments
        Keys of the build arguments that it is made with; their values may be secret.
    """
    with engine.asked(f"look at the image {foundation}"):
        below = engine.api.inspect_image(foundation)
    return {
        IMAGE_LABEL: image.name,
        LOCK_LABEL: lock_digest(),
        SOURCES_LABEL: sources_digest(image),
        ARGUMENTS_LABEL: " ".join(sorted(arguments)),  # even if none: else the base image's hold here, too
        f"{ANNOTATION}.title": f"{LABEL} {image.name}",
        f"{ANNOTATION}.description": image.description,
        f"{ANNOTATION}.version": __version__,
        f"{ANNOTATION}.revision": _revision(),
        f"{ANNOTATION}.base.name": foundation.partition("@")[0],
        FOUNDATION_LABEL: foundation.partition("@")[2] or str(below["Id"]),
    }


def _revision() -> str:
    """Return the checkout's commit, `-dirty` if files were changed since; empty outside of one."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        ).stdout.strip()
    return ""
