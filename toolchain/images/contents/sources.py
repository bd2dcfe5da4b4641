"""The sources of an image, and the digest that shows whether the image is out of date."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from toolchain import __version__
from toolchain.images.catalogue import TABLE, Image, docker_folder, image_named
from toolchain.images.contents.context import Item, digest, files_of
from toolchain.images.contents.lockfile import PROJECT, lock_digest, lock_file, needs, runtime_lock
from toolchain.images.debian.bootstrap import debian_name
from toolchain.images.debian.system import system_digest
from toolchain.images.engine import LABEL, SOURCES_LABEL
from toolchain.profiles import profile_folders

__all__ = [
    "ANNOTATION",
    "FOUNDATION_LABEL",
    "LOCK_LABEL",
    "SOURCES_LABEL",
    "foundation_name",
    "items",
    "lock_digest",
    "sources_digest",
]

ANNOTATION = "org.opencontainers.image"
FOUNDATION_LABEL = f"{ANNOTATION}.base.digest"  # on images: the id, or a registry's digest, of what is below
LOCK_LABEL = f"{LABEL}.lock"  # on images: the SHA-256 of requirements.lock
_SHARED = ("packages.sh", "slim-cross.sh")  # in the contexts of the Dockerfiles that name them
_TEST = "smoke"  # beside the Dockerfile, not in the image
_PACKAGE = Path(__file__).parents[2]


def foundation_name(image: Image) -> str:
    """Return the engine's name of an image's base image."""
    return image_named(image.stands_on).tag if image.stands_on else debian_name()


def items(image: Image) -> list[Item]:
    """Return the files of an image's context, without certificates and wheels."""
    own = (item for item in files_of(image.path) if not item.name.startswith(_TEST))
    text = (image.path / "Dockerfile").read_text()
    shared = (Item(name, docker_folder() / name, executable=True) for name in _SHARED if name in text)
    found = [*own, *shared]
    if not image.stands_on:
        found += _code()
    return found


def sources_digest(image: Image) -> str:
    """Return a digest of an image's sources, including those of its base images.

    Wheels count by their hashes in the lock; the versions of Debian's packages do not count.
    """
    if image.system:
        return system_digest(image)
    below = sources_digest(image_named(image.stands_on)) if image.stands_on else ""
    return hashlib.sha256(f"{below} {debian_name()} {digest(items(image))}".encode()).hexdigest()


def _code() -> Iterator[Item]:
    """Yield the files of this package with the paths of an installed wheel."""
    yield Item("requirements.txt", runtime_lock().encode())
    for item in files_of(_PACKAGE, "code/toolchain/"):
        if not item.name.startswith(("code/toolchain/boards_shipped/", "code/toolchain/docker_shipped/")):
            yield item
    yield from files_of(profile_folders()[-1], "code/toolchain/boards_shipped/")
    yield Item(f"code/toolchain/docker_shipped/{TABLE}", docker_folder() / TABLE)
    yield Item("code/toolchain/docker_shipped/requirements.lock", lock_file())
    lines = [f"Name: {PROJECT}", f"Version: {__version__}", *(f"Requires-Dist: {need}" for need in needs())]
    metadata = "\n".join(["Metadata-Version: 2.1", *lines, ""])
    yield Item(f"code/{PROJECT.replace('-', '_')}-{__version__}.dist-info/METADATA", metadata.encode())
