"""`requirements.lock`, and the part of it that images have: what this package needs to run."""

from __future__ import annotations

import hashlib
import re
from importlib import metadata
from pathlib import Path

from packaging.markers import Marker

from toolchain.errors import MissingError, UsageError
from toolchain.images.catalogue import docker_folder
from toolchain.models.reading.formats import reader_extras

PROJECT = "edge-toolchain"
EXTRAS = ("compile", *reader_extras())
"""The extras that images have: a step in a container compiles and reads what one on this host does."""

PYTHON = "3.11"  # Debian 12's
# What markers in the lock ask for, as it is in an image.
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


def needs() -> list[str]:
    """Return this package's direct requirements in an image from its metadata: of extras those of `EXTRAS`.

    Raises
    ------
    MissingError
        The package is not installed.
    """
    try:
        found = metadata.requires(PROJECT) or []
    except metadata.PackageNotFoundError as error:
        raise MissingError(
            "this package is not installed, so what it needs is not known", "pip install -e ."
        ) from error
    return sorted(line for line in found if "extra ==" not in line or _is_of_extra(line))


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
    wanted = {_name(line) for line in needs()}
    if missing := wanted - entries.keys():
        raise UsageError(f"{lock_file()} does not lock {', '.join(sorted(missing))}", "make lock")
    # The lock says of each entry which other ones need it.
    while more := {n for n, (_, parents) in entries.items() if n not in wanted and parents & wanted}:
        wanted |= more
    return "".join(entries[name][0] for name in sorted(wanted))


def _entries(text: str) -> dict[str, tuple[str, set[str]]]:
    """Return each entry that holds in an image: its lines without the marker, and what needs it."""
    found: dict[str, tuple[str, set[str]]] = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        head = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(?:;\s*([^\\\n]+?))?\s*\\?\n", block)
        if not head or (head[3] and not Marker(head[3]).evaluate(_INSIDE)):
            continue
        hashes = re.findall(r"--hash=\S+", block)
        parents = {_name(word) for word in re.findall(r"#\s+(?:via\s+)?([A-Za-z0-9][\w.-]*)", block)}
        lines = " \\\n    ".join([f"{head[1]}=={head[2]}", *hashes])
        found[_name(head[1])] = (f"{lines}\n", parents - {"via"})
    return found


def _name(requirement: str) -> str:
    word = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    return re.sub(r"[-_.]+", "-", word[0] if word else "").lower()
