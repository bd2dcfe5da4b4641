"""Writes a release into one file, which a board installs from a USB stick."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from toolchain.errors import CheckError, UsageError
from toolchain.files import atomic
from toolchain.releases.signed import SignedRelease
from toolchain.releases.stream import stream_head
from toolchain.releases.trust_file import TrustChain


class WrittenFile(NamedTuple):
    """A file that was written."""

    file: Path
    size: int
    sha256: str


def export_release(release: SignedRelease, trust: TrustChain | None, file: Path) -> WrittenFile:
    """Write the release file of docs/release-format.md: head, then every part.

    Raises
    ------
    CheckError
        The bundle changed since it was compared with its release.
    ToolchainError
        The file system refuses.
    """
    _refuse_source(release, file)
    digest, size = hashlib.sha256(), 0
    with atomic.replacing(file) as temporary, temporary.open("wb") as out:
        for chunk in _content(release, trust):
            out.write(chunk)
            digest.update(chunk)
            size += len(chunk)
    return WrittenFile(file, size, digest.hexdigest())


def export_bundle(release: SignedRelease, file: Path) -> tuple[WrittenFile, WrittenFile]:
    """Copy the bundle to `file`, and its release to `file`.release, for another way to the board.

    Errors as of `export_release`.
    """
    _refuse_source(release, file)
    with atomic.replacing(file) as temporary:
        shutil.copyfile(release.bundle, temporary)
        with temporary.open("rb") as copy:
            digest = hashlib.file_digest(copy, "sha256").hexdigest()
        if digest != release.digest:
            raise _changed(release)
        size = temporary.stat().st_size
    envelope = release.envelope.to_bytes() + b"\n"
    beside = file.with_name(f"{file.name}.release")
    atomic.write_bytes(beside, envelope)
    return WrittenFile(file, size, digest), WrittenFile(
        beside, len(envelope), hashlib.sha256(envelope).hexdigest()
    )


def _content(release: SignedRelease, trust: TrustChain | None) -> Iterator[bytes]:
    yield stream_head(release, trust.envelopes if trust else (), newest=release.release.version)
    for index, part in enumerate(release.parts):
        digest = hashlib.sha256()
        for chunk in release.part(index):
            digest.update(chunk)
            yield chunk
        if digest.hexdigest() != part.sha256:
            raise _changed(release)


def _refuse_source(release: SignedRelease, file: Path) -> None:
    if file.exists() and any(file.samefile(each) for each in (release.bundle, release.file)):
        raise UsageError(f"-o {file} is the bundle or its release", "name another file")


def _changed(release: SignedRelease) -> CheckError:
    return CheckError(f"bundle {release.bundle} changed while it was exported", "run the same command again")
