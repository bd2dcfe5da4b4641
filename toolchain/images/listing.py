"""The labels of our images, and the state of an image in the engine, which follows from its labels."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from toolchain import __version__
from toolchain.images.catalogue import Image, catalogue
from toolchain.images.contents import (
    ANNOTATION,
    FOUNDATION_LABEL,
    LOCK_LABEL,
    foundation_name,
    lock_digest,
    sources_digest,
)
from toolchain.images.engine import ARGUMENTS_LABEL, IMAGE_LABEL, LABEL, SOURCES_LABEL, Engine

# Labels of images: our own, and those of the Open Container Initiative.

_GIT_SECONDS = 10.0


def labels_of(engine: Engine, image: Image, foundation: str, arguments: Iterable[str] = ()) -> dict[str, str]:
    """Return the labels for a new image on the base image `foundation`, which the engine has.

    Parameters
    ----------
    arguments
        Keys of the build arguments that it is made with; their values may be secret.
    """
    with engine.request(f"look at the image {foundation}"):
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


@dataclass(frozen=True)
class ImageState:
    """The state of an image in the engine.

    Attributes
    ----------
    id
        None if the engine does not have it.
    size_mib
        Uncompressed size, including its base images, as reported by the engine.
    stale
        Whether it is absent, its sources have changed since, or its base image has been replaced.
    """

    name: str
    tag: str
    id: str | None
    size_mib: float | None
    created: datetime | None
    stale: bool

    @property
    def word(self) -> str:
        """`absent`, `out of date` or `current`."""
        if self.id is None:
            return "absent"
        return "out of date" if self.stale else "current"

    def to_json(self) -> dict[str, Any]:
        """Return the state as a JSON object."""
        return {
            "name": self.name,
            "tag": self.tag,
            "id": self.id,
            "size_mib": self.size_mib,
            "created": self.created and self.created.isoformat(),
            "stale": self.stale,
            "state": self.word,
        }


def state_of(engine: Engine, image: Image) -> ImageState:
    """Return the state of an image in the engine."""
    facts = engine.image(image.tag)
    if facts is None:
        return ImageState(image.name, image.tag, None, None, None, stale=True)
    return ImageState(
        image.name,
        image.tag,
        str(facts["Id"]),
        round(facts["Size"] / 2**20, 1),
        _created(facts),
        stale=is_stale(engine, image, facts),
    )


def _created(facts: Mapping[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(facts["Created"])
    except (KeyError, TypeError, ValueError):  # images may lack the time at which they were made
        return None


def is_stale(engine: Engine, image: Image, facts: Mapping[str, Any]) -> bool:
    """Whether an image with these facts from the engine is out of date."""
    labels: Mapping[str, str] = facts["Config"]["Labels"] or {}
    if labels.get(SOURCES_LABEL) != sources_digest(image):
        return True
    if image.system:
        return False
    below = engine.image(foundation_name(image))
    # It need not be there: images can be pulled without it.
    known = {below["Id"], *(name.partition("@")[2] for name in below["RepoDigests"] or ())} if below else None
    return known is not None and labels.get(FOUNDATION_LABEL) not in known


def states(engine: Engine) -> list[ImageState]:
    """Return the state of every image of the table."""
    return [state_of(engine, image) for image in catalogue().values()]
