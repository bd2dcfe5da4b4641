"""The states of the table's images in the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from toolchain.images.catalogue import Image, catalogue
from toolchain.images.contents.sources import FOUNDATION_LABEL, foundation_name, sources_digest
from toolchain.images.engine import SOURCES_LABEL, Engine


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
    found = engine.image(image.tag)
    if found is None:
        return ImageState(image.name, image.tag, None, None, None, stale=True)
    return ImageState(
        image.name,
        image.tag,
        str(found["Id"]),
        round(found["Size"] / 2**20, 1),
        _created(found),
        stale=is_stale(engine, image, found),
    )


def _created(found: Mapping[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(found["Created"])
    except (KeyError, TypeError, ValueError):  # whoever made the image says when, or does not
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
