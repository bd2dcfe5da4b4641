"""What the engine has of the images of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from toolchain.images.catalogue import Image, catalogue
from toolchain.images.engine import SOURCES_LABEL, Engine
from toolchain.images.making.sources import FOUNDATION_LABEL, foundation_name, sources_digest


@dataclass(frozen=True)
class ImageState:
    """An image as the engine has it.

    Attributes
    ----------
    id
        None: it has none.
    size_mib
        Uncompressed, with what it stands on, as the engine reports it.
    stale
        It is not there, or what it is made of has changed since, or it stands on another image than
        the one there is now.
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
        """Return it for JSON."""
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
    """Return how the engine has an image."""
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
    """Return whether an image is out of date of which the engine knows these facts."""
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
    """Return every image of the table."""
    return [state_of(engine, image) for image in catalogue().values()]
