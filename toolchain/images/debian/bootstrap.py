"""The Debian base image: pulled from a registry by its pinned digest, or built here from packages."""

from __future__ import annotations

import hashlib
import json
import tarfile
import tempfile
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from toolchain.configuration.settings import cache_dir, settings
from toolchain.files import atomic
from toolchain.files.turns import one_at_a_time
from toolchain.images.catalogue import REPOSITORY
from toolchain.images.debian.unpacking import unpack
from toolchain.images.engine import IMAGE_LABEL, Engine
from toolchain.images.registry.archive import CHANGED, add_file, write_archive
from toolchain.images.registry.exchange import explained, listen

# Writes unpacked packages as an image's layer, without unneeded files; the bytes are reproducible.


def copy_packages(
    packages: IO[bytes], target: tarfile.TarFile, dropped: Sequence[str], added_later: Container[str]
) -> None:
    """Copy a tar stream of a file system into that of a layer.

    Parameters
    ----------
    dropped
        Paths to leave out; one that ends in `/` stands for everything below it.
    added_later
        Paths to skip, since the caller adds them.

    Raises
    ------
    tarfile.TarError
        The stream is not a tar archive.
    """
    with tarfile.open(fileobj=packages, mode="r|") as source:
        for entry in source:
            entry.name = entry.name.removeprefix("./").rstrip("/")
            if entry.name in ("", ".") or entry.name in added_later or _is_dropped(entry.name, dropped):
                continue
            entry.linkname = entry.linkname.removeprefix("./") if entry.islnk() else entry.linkname
            entry.mtime, entry.uname, entry.gname = CHANGED, "", ""
            entry.pax_headers = {}
            target.addfile(entry, source.extractfile(entry) if entry.isreg() else None)


def write_system(
    packages: IO[bytes],
    target: tarfile.TarFile,
    dropped: Sequence[str],
    folders: Mapping[str, tuple[int, int]],
    links: Mapping[str, str],
    files: Mapping[str, tuple[int, str]],
) -> None:
    """Copy packages, then add what replaces the results of their scripts, which do not run.

    Parameters
    ----------
    dropped
        See `copy_packages`.
    folders, links, files
        Mode and owner, target, and mode and content of each, by path.

    Raises
    ------
    tarfile.TarError
        The stream is not a tar archive.
    """
    copy_packages(packages, target, dropped, {*folders, *links, *files})
    for name, (mode, owner) in folders.items():
        add_folder(target, name, mode, owner)
    for name, where in links.items():
        add_link(target, name, where)
    for name, (mode, text) in files.items():
        add_file(target, name, text.encode(), mode, changed=CHANGED)


def add_folder(target: tarfile.TarFile, name: str, mode: int = 0o755, owner: int = 0) -> None:
    """Add a folder; `owner` is both its user's and its group's number."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid, entry.mtime = tarfile.DIRTYPE, mode, owner, owner, CHANGED
    target.addfile(entry)


def add_link(target: tarfile.TarFile, name: str, where: str) -> None:
    """Add a symbolic link."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mtime = tarfile.SYMTYPE, where, CHANGED
    target.addfile(entry)


def _is_dropped(name: str, dropped: Sequence[str]) -> bool:
    return any(name == d.rstrip("/") or (d.endswith("/") and name.startswith(d)) for d in dropped)


SUITE = "bookworm"
ARCHITECTURE = "amd64"
"""The machines on which images with tools are made: their cross-compilers and wheels are for these."""

WITHOUT = "--engine host needs no image"
FOLDER = "rootfs"  # in the cache
_VARIANT = "apt"  # the essential packages and apt, which adds others in build stages
_PACKAGES = ("usr-is-merged",)  # else the package usrmerge is installed, with Perl
_DROPPED = (
    *("dev/", "etc/hostname", "etc/resolv.conf", "etc/apt/sources.list", "etc/machine-id"),
    *("etc/apt/apt.conf.d/99mmdebstrap", "var/cache/", "var/log/", "var/lib/apt/lists/"),
    *("var/lib/dpkg/status-old", "var/lib/dpkg/diversions-old", "usr/share/doc/", "usr/share/locale/"),
    *("usr/share/man/", "usr/share/info/", "usr/share/lintian/", "usr/share/bash-completion/"),
)
_FOLDERS = ("dev", "var/cache", "var/cache/apt", "var/cache/apt/archives", "var/log", "var/lib/apt/lists")
_COMMAND = ("/bin/bash",)
_LOCK_SECONDS = 1200.0


def debian_name() -> str:
    """Return the name of the base image: the pinned `debian_image`, else the tag of the one made here."""
    pinned = settings().debian_image
    if pinned:
        return pinned
    recipe = (SUITE, ARCHITECTURE, _VARIANT, _PACKAGES, _DROPPED, _FOLDERS, _COMMAND, CHANGED)
    digest = hashlib.sha256(json.dumps(recipe).encode()).hexdigest()
    return f"{REPOSITORY}/debian:{SUITE}-{digest[:12]}"


def cached_name() -> str:
    """Return the name of the file in the cache for the Debian that is made here."""
    return f"debian-{debian_name().rpartition('-')[2]}.tar"


def ensure_debian(engine: Engine, progress: Callable[[str], None], *, anew: bool = False) -> str:
    """Make sure that the engine has the Debian base image; return its name.

    Parameters
    ----------
    anew
        Make it again, from today's packages.

    Raises
    ------
    MissingError
        `mmdebstrap` is not installed, or no mirror is known.
    ToolchainError
        The packages or the pinned image cannot be fetched.
    """
    name = debian_name()
    if engine.has_image(name) and not anew:
        return name
    if settings().debian_image:
        progress(f"fetching {name}")
        _pull(engine, name, progress)
        return name
    file = cache_dir() / FOLDER / cached_name()
    with one_at_a_time(Path(f"{file}.lock"), _LOCK_SECONDS, f"making {file}"):
        if anew or not file.exists():
            progress(f"unpacking Debian {SUITE}, once (under a minute)")
            _make(file, name)
        progress(f"loading {name} into Docker")
        engine.load_image(file)
    return name


def _pull(engine: Engine, name: str, progress: Callable[[str], None]) -> None:
    repository, _, digest = name.partition("@")
    with explained(f"fetch {name}", name, "is debian_image right?"):
        fetch = partial(engine.api.pull, repository, tag=digest, stream=True, decode=True)
        for _event in listen(fetch, "debian", progress):
            pass


def _make(target: Path, tag: str) -> None:
    with (
        atomic.replacing(target) as archive,
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".debian.") as folder,
    ):
        layer = Path(folder) / "layer.tar"
        with (
            unpack(SUITE, ARCHITECTURE, _PACKAGES, Path(folder) / "log", _VARIANT) as packages,
            tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as layer_tar,
        ):
            copy_packages(packages, layer_tar, _DROPPED, _FOLDERS)
            for name in _FOLDERS:
                add_folder(layer_tar, name)
        write_archive(archive, layer, tag, ARCHITECTURE, _COMMAND, {IMAGE_LABEL: "debian"})
