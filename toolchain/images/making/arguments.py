"""Build arguments: which ones an image takes, and the files that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from toolchain.errors import UsageError
from toolchain.files.plain import expanded
from toolchain.images.catalogue import Image
from toolchain.images.contents.context import Item

FOLDER = "given"  # in every context; `COPY given/ …` works without any
FILE_SUFFIX = "_ARCHIVE"
_OURS = frozenset({"DEBIAN", "FOUNDATION", "MIRROR"})


def declared(image: Image) -> set[str]:
    """Return the keys of an image's build arguments, from its Dockerfile."""
    if image.system:
        return set()
    text = (image.path / "Dockerfile").read_text()
    return set(re.findall(r"^ARG\s+([A-Za-z_][A-Za-z0-9_]*)", text, re.MULTILINE)) - _OURS


def check(given: Mapping[str, str], images: Iterable[Image]) -> None:
    """Check build arguments and the files that they name.

    Raises
    ------
    UsageError
        None of the images takes an argument, or a file does not exist.
    """
    images = list(images)
    for key in given:
        if not any(key in declared(image) for image in images):
            names = ", ".join(image.name for image in images)
            raise UsageError(f"--build-arg {key}: none of {names} takes it", _hint(images))
    with_files(given)


def with_files(given: Mapping[str, str]) -> tuple[dict[str, str], list[Item]]:
    """Return the arguments as a Dockerfile sees them, and the files that go into its context.

    Raises
    ------
    UsageError
        A file does not exist, or two files have the same name.
    """
    values = dict(given)
    files: list[Item] = []
    for key, value in given.items():
        if not key.endswith(FILE_SUFFIX) or not value:
            continue
        file = expanded(value)
        if not file.is_file():
            raise UsageError(f"--build-arg {key}={value}: no such file", "the path of a file on this machine")
        values[key] = f"{FOLDER}/{file.name}"
        if any(values[key] == other.name and file != other.content for other in files):
            raise UsageError(
                f"--build-arg {key}={value}: another file of this name is given", "rename one of the two"
            )
        files.append(Item(values[key], file))
    return values, files


def _hint(images: Iterable[Image]) -> str:
    taken = sorted({key for image in images for key in declared(image)})
    return f"they take: {', '.join(taken)}" if taken else "they take none"
