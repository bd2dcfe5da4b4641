"""`docker/images.toml`: the one table of images."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from toolchain.architectures.table import linux_rows
from toolchain.configuration.settings import settings
from toolchain.errors import UsageError

REPOSITORY = "edge-toolchain"
TABLE = "images.toml"


class Image(BaseModel):
    """One entry of the table.

    Attributes
    ----------
    folder
        Folder beside the table, with Dockerfile and smoke test; empty for a `system`.
    stands_on
        The base image of its Dockerfile; empty for plain Debian.
    system
        For the root file system of an emulated board: Debian's name of the architecture.
    packages
        Debian packages of a `system` in addition to those of every board.
    device
        Kind of device for which its packages have a driver.
    optional
        Whether it is made or fetched only if named: it takes long, and few users need it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str = Field(min_length=1)
    folder: str = ""
    stands_on: str = ""
    system: str = ""
    packages: tuple[str, ...] = ()
    device: str = ""
    optional: bool = False

    @property
    def tag(self) -> str:
        """Name and tag of the image in the engine; the tag is the setting `image_tag`."""
        return f"{REPOSITORY}/{self.name}:{settings().image_tag}"

    @property
    def path(self) -> Path:
        """Folder of the image on this machine."""
        return docker_folder() / self.folder

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if bool(self.folder) == bool(self.system):
            raise ValueError("either folder or system is wanted")
        if self.device and not self.packages:
            raise ValueError("a driver of the device comes with packages: which?")
        if self.packages and not self.system:
            raise ValueError("packages are a system's; a Dockerfile has its own")
        known = [row.debian for row in linux_rows()]
        if self.system and self.system not in known:
            raise ValueError(f"system is none of {', '.join(known)}")
        return self


def docker_folder() -> Path:
    """Return the folder of `images.toml`: in a wheel beside this package's modules, else in the checkout."""
    package = Path(__file__).parent.parent
    shipped = package / "docker_shipped"
    return shipped if shipped.is_dir() else package.parent / "docker"


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Image]:
    """Return every image by name in the table's order, in which base images come first.

    Raises
    ------
    UsageError
        The table is invalid.
    """
    file = docker_folder() / TABLE
    try:
        images = {name: Image(name=name, **entry) for name, entry in tomllib.loads(file.read_text()).items()}
    except (OSError, tomllib.TOMLDecodeError, ValidationError, TypeError) as error:
        raise UsageError(f"{file} cannot be read: {error}", f"edit {file}") from error
    known_names: set[str] = set()
    for image in images.values():
        if image.stands_on and image.stands_on not in known_names:
            raise UsageError(
                f"{file}: {image.name} stands on {image.stands_on!r}, which does not come before it"
            )
        known_names.add(image.name)
    return images


def image_named(name: str) -> Image:
    """Return one image.

    Raises
    ------
    UsageError
        The table has none of that name.
    """
    image = catalogue().get(name)
    if image is None:
        raise UsageError(f"no image {name!r}", f"the images are: {', '.join(catalogue())}")
    return image


def usual() -> list[str]:
    """Return the names of the images to use if the user names none: all but optional ones."""
    return [name for name, image in catalogue().items() if not image.optional]


def with_foundations(names: Iterable[str]) -> list[Image]:
    """Return the named images and their base images, in build order."""
    needed = set()
    for name in names:
        image = image_named(name)
        needed.add(name)
        while image.stands_on:
            needed.add(image.stands_on)
            image = image_named(image.stands_on)
    return [image for name, image in catalogue().items() if name in needed]
