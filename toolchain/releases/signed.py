"""A signed release: a bundle, its envelope, and the position of each part in the bundle's file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from toolchain.bundles import layout
from toolchain.errors import CheckError, UsageError
from toolchain.files.plain import open_plain
from toolchain.releases.envelope import Envelope, parse_envelope
from toolchain.releases.reading import read_limited
from toolchain.releases.statement import RELEASE_TYPE, Release, Statement, parse_statement
from toolchain.releases.strict_json import MOST_BYTES

_CHUNK = 2**20


@dataclass(frozen=True)
class Part:
    """A member of the bundle that a board keeps.

    Attributes
    ----------
    position
        Its first byte in the bundle's file.
    """

    name: str
    sha256: str
    size: int
    position: int


@dataclass(frozen=True)
class SignedRelease:
    """A release with the file that its parts are read from. Nothing of the bundle is held in memory."""

    bundle: Path
    file: Path
    envelope: Envelope
    statement: Statement
    parts: tuple[Part, ...]

    @property
    def release(self) -> Release:
        """The statement's predicate."""
        return self.statement.predicate

    @property
    def digest(self) -> str:
        """SHA-256 of the bundle, the name of the release on boards."""
        return self.statement.bundle_sha256

    def part(self, index: int, offset: int = 0) -> Iterator[bytes]:
        """Yield the bytes of a part from `offset` on.

        Raises
        ------
        UsageError
            The bundle cannot be read, or ends before the part does.
        """
        part = self.parts[index]
        if not 0 <= offset <= part.size:
            raise ValueError(f"offset {offset} of {part.name}, which has {part.size} bytes")
        with _opened(self.bundle) as file:
            file.seek(part.position + offset)
            left = part.size - offset
            while left:
                chunk = file.read(min(_CHUNK, left))
                if not chunk:
                    raise _changed(self.bundle)
                left -= len(chunk)
                yield chunk


def release_path(bundle: Path) -> Path:
    """Return the path of the envelope beside a bundle."""
    return bundle.with_name(f"{bundle.name}.release")


def read_envelope(bundle: Path, file: Path | None = None) -> tuple[Path, Envelope]:
    """Read the envelope of a bundle; its signatures are not checked.

    Parameters
    ----------
    file
        Path of the envelope; default: the one beside the bundle.

    Raises
    ------
    UsageError
        There is no such file, or it cannot be read.
    CheckError
        It is no envelope of a release.
    """
    path = file or release_path(bundle)
    if not path.exists():
        raise UsageError(
            f"{bundle} has no release: there is no {path}",
            f"toolchain release sign {bundle} --key KEY --version VERSION --expires DATE",
        )
    data = read_limited(path, MOST_BYTES, "the release").strip()
    return path, parse_envelope(data, RELEASE_TYPE, f"release {path}")


def open_release(bundle: Path) -> SignedRelease:
    """Read a bundle's release and compare the bundle's bytes with it; the signatures are not checked.

    Raises
    ------
    UsageError
        A file cannot be read, or the bundle has no release.
    CheckError
        The release is no envelope of one; or its statement is about another bundle, or is none of a release.
    """
    return compared(bundle, *read_envelope(bundle))


def compared(bundle: Path, path: Path, envelope: Envelope) -> SignedRelease:
    """Compare the bundle's bytes with the envelope from `path`; errors as of `open_release`."""
    statement = parse_statement(envelope.payload, f"release {path}")
    parts = _located(statement)
    with _opened(bundle) as file:
        _compare(bundle, path, file, statement, parts)
    return SignedRelease(bundle, path, envelope, statement, parts)


def _located(statement: Statement) -> tuple[Part, ...]:
    """Return the parts with their positions, which follow from the sizes alone."""
    parts, position = [], layout.BLOCK
    for subject, size in zip(statement.subject[1:], statement.predicate.sizes, strict=True):
        parts.append(Part(subject.name, subject.digest.sha256, size, position))
        position += _padded(size) + layout.BLOCK
        if subject.name == layout.MANIFEST:  # followed by its digest, which boards don't need
            position += _padded(len(layout.sum_line(subject.digest.sha256))) + layout.BLOCK
    return tuple(parts)


def _padded(size: int) -> int:
    return size + len(layout.padding(size))


def _compare(bundle: Path, path: Path, file: BinaryIO, statement: Statement, parts: tuple[Part, ...]) -> None:
    """Check that the file is the bundle that the statement is about, and that its parts lie in it."""
    whole = _digest(file, os.fstat(file.fileno()).st_size)
    if whole != statement.bundle_sha256:
        raise CheckError(
            f"release {path} is for another bundle than {bundle}: it names {statement.bundle_sha256[:16]}…, "
            f"the bundle is {whole[:16]}…",
            f"sign this bundle: remove {path}, then `toolchain release sign {bundle} …`",
        )
    if parts[-1].position + parts[-1].size > os.fstat(file.fileno()).st_size:
        raise _changed(bundle)
    for part in parts:
        file.seek(part.position)
        if _digest(file, part.size) != part.sha256:
            raise CheckError(
                f"release {path} names another {part.name} than {bundle} has",
                f"sign this bundle: remove {path}, then `toolchain release sign {bundle} …`",
            )


def _digest(file: BinaryIO, left: int) -> str:
    """Return the SHA-256 of the next `left` bytes."""
    digest = hashlib.sha256()
    while left and (chunk := file.read(min(_CHUNK, left))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest()


def _changed(bundle: Path) -> UsageError:
    return UsageError(f"bundle {bundle} is shorter than its release says", "copy it again, or build it again")


def _opened(bundle: Path) -> BinaryIO:
    try:
        return open_plain(bundle)
    except OSError as error:
        raise UsageError(
            f"cannot read the bundle {bundle}: {error.strerror}",
            "give the bundle that `toolchain build` wrote",
        ) from error
