"""The `system` images: file systems of emulated boards, from Debian's packages; made once and cached."""

from __future__ import annotations

import hashlib
import json
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from toolchain.architectures.table import of_debian
from toolchain.configuration.settings import cache_dir
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError
from toolchain.files import atomic
from toolchain.files.turns import one_at_a_time
from toolchain.images.catalogue import Image, catalogue
from toolchain.images.debian import system_files as files
from toolchain.images.debian.bootstrap import write_system
from toolchain.images.debian.unpacking import unpack
from toolchain.images.engine import IMAGE_LABEL, SOURCES_LABEL, Engine
from toolchain.images.registry.archive import CHANGED, write_archive

FOLDER = "rootfs"  # in the cache
_LOCK_SECONDS = 1200.0


def system_digest(image: Image) -> str:
    """Return a digest of everything a `system` image is made of, except the versions of its packages."""
    recipe = {"CHANGED": CHANGED} | {name: value for name, value in vars(files).items() if name.isupper()}
    made_of = [recipe, _annotations(image), image.system, image.tag, *image.packages]
    content = json.dumps(made_of, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def cached_name(image: Image) -> str:
    """Return the name of an image's file in the cache."""
    return f"{image.system}-{system_digest(image)[:16]}.tar"


def ensure_image(engine: Engine, debian: str, progress: Callable[[str], None], *, device: str = "") -> str:
    """Make sure that the engine has the image of a board of that architecture; return its tag.

    Parameters
    ----------
    debian
        Debian's name of the machine's architecture, such as arm64.
    device
        Kind of device whose driver it must have; empty for no driver.

    Raises
    ------
    UsageError
        No such image exists for that architecture.
    """
    systems = [image for image in catalogue().values() if image.system]
    matching = [image for image in systems if image.system == debian and image.device == device]
    if not matching:
        known = ", ".join(image.system for image in systems if image.device == device)
        bed = kind_of(device).test_bed
        raise UsageError(
            f"--{device}: there is no system with a driver of it for {debian} boards",
            f"there is one for {known}" + (f"; {bed.elsewhere}" if bed else ""),
        )
    return ensure_system(engine, matching[0], progress)


def ensure_system(engine: Engine, image: Image, progress: Callable[[str], None]) -> str:
    """Make sure that the engine has the current version of a `system` image; return its tag.

    Our older version is removed unless a container still uses it.

    Raises
    ------
    MissingError
        `mmdebstrap` is not installed.
    ToolchainError
        The packages cannot be fetched, or the image cannot be loaded; no partial image is left.
    """
    if _is_current(engine, image):
        return image.tag
    file = cache_dir() / FOLDER / cached_name(image)
    with one_at_a_time(Path(f"{file}.lock"), _LOCK_SECONDS, f"making {file}"):
        if _is_current(engine, image):
            return image.tag
        if not file.exists():
            progress(f"unpacking Debian {files.SUITE} for {image.name}, once (under a minute)")
            build(file, image)
        progress(f"loading {image.tag} into Docker")
        engine.load_image(file)
        engine.remove_superseded(image.name, image.tag)
    return image.tag


def _is_current(engine: Engine, image: Image) -> bool:
    labels = engine.image_labels(image.tag) or {}
    return labels.get(SOURCES_LABEL) == system_digest(image)


def build(target: Path, image: Image) -> None:
    """Write a `system` image as a docker-archive; errors as of `ensure_system`."""
    with (
        atomic.replacing(target) as archive,
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".rootfs.") as folder,
    ):
        layer = Path(folder) / "layer.tar"
        package_names = (*files.PACKAGES, *image.packages)
        with unpack(files.SUITE, image.system, package_names, Path(folder) / "log") as packages:
            _write_layer(packages, layer)
        labels = {**_annotations(image), SOURCES_LABEL: system_digest(image)}
        write_archive(archive, layer, image.tag, of_debian(image.system).docker, files.COMMAND, labels)


def _annotations(image: Image) -> Mapping[str, str]:
    return {
        IMAGE_LABEL: image.name,
        "org.opencontainers.image.title": image.name,
        "org.opencontainers.image.description": image.description,
    }


def _write_layer(packages: IO[bytes], layer: Path) -> None:
    with tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as target:
        write_system(packages, target, files.DROPPED, files.FOLDERS, files.LINKS, files.FILES)
