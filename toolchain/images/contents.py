"""The contents of images: their build contexts, and the digest that shows whether an image is out of date."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.markers import Marker

from toolchain import __version__
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.images.catalogue import TABLE, Image, docker_folder, image_named
from toolchain.images.debian.bootstrap import debian_name
from toolchain.images.debian.system import system_digest
from toolchain.images.engine import LABEL
from toolchain.images.registry.archive import add_file
from toolchain.models.reading.formats import reader_extras
from toolchain.profiles import profile_folders

# Build contexts: deterministic tars with what an image needs and nothing else.

_JUNK = ("__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache")


@dataclass(frozen=True)
class Item:
    """A file of a context.

    Attributes
    ----------
    name
        Its path in the context.
    content
        Its content, or the file with its content.
    """

    name: str
    content: bytes | Path
    executable: bool = False

    def read(self) -> bytes:
        """Return its content."""
        return self.content if isinstance(self.content, bytes) else self.content.read_bytes()


def files_of(folder: Path, prefix: str = "") -> Iterator[Item]:
    """Yield the files of a folder in the order of their names, without the caches of tools."""
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        if file.is_file() and not any(p in _JUNK or p.startswith(".") for p in name.parts):
            yield Item(f"{prefix}{name.as_posix()}", file, bool(file.stat().st_mode & 0o100))


def digest_of(items: Iterable[Item]) -> str:
    """Return a digest of names, permissions and contents."""
    total = hashlib.sha256()
    for item in sorted(items, key=lambda i: i.name):
        content = hashlib.sha256(item.read()).hexdigest()
        total.update(f"{item.name} {item.executable} {content}\n".encode())
    return total.hexdigest()


def write_context(target: Path, items: Iterable[Item], folders: Sequence[str]) -> None:
    """Write a context as a tar whose owners, times and permissions do not depend on this machine.

    Parameters
    ----------
    folders
        Folders to add even if they stay empty, since `COPY` needs them.
    """
    try:
        with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
            for name in folders:
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
            for item in items:
                _add(archive, item)
    except OSError as error:
        raise ToolchainError(
            f"cannot write the build context {target}: {error}", "free some space"
        ) from error


def _add(archive: tarfile.TarFile, item: Item) -> None:
    mode = 0o755 if item.executable else 0o644
    if isinstance(item.content, bytes):
        add_file(archive, item.name, item.content, mode)
        return
    entry = tarfile.TarInfo(item.name)
    entry.mode = mode
    with item.content.open("rb") as file:
        entry.size = item.content.stat().st_size
        archive.addfile(entry, file)


# `requirements.lock`, and the part of it that images have: what this package needs to run.

PROJECT = "edge-toolchain"
EXTRAS = ("compile", *reader_extras())
"""The extras that images have: a step in a container compiles and reads what one on this host does."""

PYTHON = "3.11"  # Debian 12's
# The environment of an image, for the markers in the lock file.
_INSIDE = {
    "python_version": PYTHON,
    "python_full_version": f"{PYTHON}.2",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "os_name": "posix",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
    "extra": "",
}


def lock_file() -> Path:
    """Return the path of `requirements.lock`.

    An installed wheel has it beside the images' files, a checkout in its root folder.

    Raises
    ------
    MissingError
        Neither folder has the file.
    """
    folder = docker_folder()
    for file in (folder / "requirements.lock", folder.parent / "requirements.lock"):
        if file.is_file():
            return file
    raise MissingError(f"{folder} has no requirements.lock beside it", "install this package again")


def lock_digest() -> str:
    """Return the SHA-256 of `requirements.lock`, in hexadecimal digits."""
    return hashlib.sha256(lock_file().read_bytes()).hexdigest()


def direct_requirements() -> list[str]:
    """Return this package's direct requirements in an image from its metadata: of extras those of `EXTRAS`.

    Raises
    ------
    MissingError
        The package is not installed.
    """
    try:
        requirements = metadata.requires(PROJECT) or []
    except metadata.PackageNotFoundError as error:
        raise MissingError(
            "this package is not installed, so what it needs is not known", "pip install -e ."
        ) from error
    return sorted(line for line in requirements if "extra ==" not in line or _is_of_extra(line))


def _is_of_extra(line: str) -> bool:
    return re.search(rf"extra == ['\"]({'|'.join(EXTRAS)})['\"]", line) is not None


def runtime_lock() -> str:
    """Return the entries of `requirements.lock` that the package needs to run in an image, with hashes.

    Raises
    ------
    UsageError
        A requirement has no entry in the file.
    """
    entries = _entries(lock_file().read_text())
    locked = {_name(line) for line in direct_requirements()}
    if missing := locked - entries.keys():
        raise UsageError(f"{lock_file()} does not lock {', '.join(sorted(missing))}", "make lock")
    # The lock says of each entry which other ones need it.
    while more := {n for n, (_, parents) in entries.items() if n not in locked and parents & locked}:
        locked |= more
    return "".join(entries[name][0] for name in sorted(locked))


def _entries(text: str) -> dict[str, tuple[str, set[str]]]:
    """Return each entry that holds in an image: its lines without the marker, and what needs it."""
    entries: dict[str, tuple[str, set[str]]] = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        head = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(?:;\s*([^\\\n]+?))?\s*\\?\n", block)
        if not head or (head[3] and not Marker(head[3]).evaluate(_INSIDE)):
            continue
        hashes = re.findall(r"--hash=\S+", block)
        parents = {_name(word) for word in re.findall(r"#\s+(?:via\s+)?([A-Za-z0-9][\w.-]*)", block)}
        lines = " \\\n    ".join([f"{head[1]}=={head[2]}", *hashes])
        entries[_name(head[1])] = (f"{lines}\n", parents - {"via"})
    return entries


def _name(requirement: str) -> str:
    word = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    return re.sub(r"[-_.]+", "-", word[0] if word else "").lower()


ANNOTATION = "org.opencontainers.image"
FOUNDATION_LABEL = f"{ANNOTATION}.base.digest"  # on images: the id, or a registry's digest, of what is below
LOCK_LABEL = f"{LABEL}.lock"  # on images: the SHA-256 of requirements.lock
_SHARED = ("packages.sh", "slim-cross.sh")  # in the contexts of the Dockerfiles that name them
_TEST = "smoke"  # beside the Dockerfile, not in the image
_PACKAGE = Path(__file__).parents[1]


def foundation_name(image: Image) -> str:
    """Return the engine's name of an image's base image."""
    return image_named(image.stands_on).tag if image.stands_on else debian_name()


def items_of(image: Image) -> list[Item]:
    """Return the files of an image's context, without certificates and wheels."""
    dockerfile_and_files = (item for item in files_of(image.path) if not item.name.startswith(_TEST))
    text = (image.path / "Dockerfile").read_text()
    shared = (Item(name, docker_folder() / name, executable=True) for name in _SHARED if name in text)
    context = [*dockerfile_and_files, *shared]
    if not image.stands_on:
        context += _code()
    return context


def sources_digest(image: Image) -> str:
    """Return a digest of an image's sources, including those of its base images.

    Wheels count by their hashes in the lock; the versions of Debian's packages do not count.
    """
    if image.system:
        return system_digest(image)
    below = sources_digest(image_named(image.stands_on)) if image.stands_on else ""
    return hashlib.sha256(f"{below} {debian_name()} {digest_of(items_of(image))}".encode()).hexdigest()


def _code() -> Iterator[Item]:
    """Yield the files of this package with the paths of an installed wheel."""
    yield Item("requirements.txt", runtime_lock().encode())
    for item in files_of(_PACKAGE, "code/toolchain/"):
        if not item.name.startswith(("code/toolchain/boards_shipped/", "code/toolchain/docker_shipped/")):
            yield item
    yield from files_of(profile_folders()[-1], "code/toolchain/boards_shipped/")
    yield Item(f"code/toolchain/docker_shipped/{TABLE}", docker_folder() / TABLE)
    yield Item("code/toolchain/docker_shipped/requirements.lock", lock_file())
    fields = [
        f"Name: {PROJECT}",
        f"Version: {__version__}",
        *(f"Requires-Dist: {need}" for need in direct_requirements()),
    ]
    description = "\n".join(["Metadata-Version: 2.1", *fields, ""])
    yield Item(f"code/{PROJECT.replace('-', '_')}-{__version__}.dist-info/METADATA", description.encode())
