"""A signed release: a bundle, its envelope, and the position of each part in the bundle's file."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from toolchain.bundles import layout
from toolchain.errors import CheckError, UsageError
from toolchain.files.plain import open_plain, read_limited
from toolchain.quantities import counted
from toolchain.releases.envelope import MOST_BYTES, Envelope, PublicKey, parse_envelope
from toolchain.releases.signers.openssh import read_key
from toolchain.releases.statement import RELEASE_TYPE, Release, Statement, parse_statement
from toolchain.releases.trust import MADE_BY, TrustChain, check_signatures, day, read_trust
from toolchain.releases.trust import MOST_BYTES as MOST_TRUST_BYTES

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


# Verifies a release on the host, by the rules of the board.

CLOCK_TOLERANCE_S = 86400
"""Seconds by which a clock may be behind that of the machine that signed."""


@dataclass(frozen=True)
class ReleaseKeys:
    """The keys that may sign releases, how many must, and until when (seconds since 1970; None: always)."""

    keys: Sequence[PublicKey]
    threshold: int
    expires: int | None = None
    name: str = "the given key"


def release_keys(chain: TrustChain) -> ReleaseKeys:
    """Return the release keys of a trust's newest version."""
    trust = chain.newest
    return ReleaseKeys(
        trust.keys_of(trust.release), trust.release.threshold, trust.expires, f"trust {chain.path}"
    )


def read_release_keys(path: Path) -> ReleaseKeys:
    """Return the keys that may sign releases, by a trust file or one public key.

    Raises
    ------
    UsageError
        The file cannot be read, or is a key of another kind.
    CheckError
        It is a trust whose signatures fail.
    """
    content = read_limited(path, MOST_TRUST_BYTES, "the trust", MADE_BY)
    if content.lstrip().startswith(b"{"):
        return release_keys(read_trust(path))
    return ReleaseKeys([read_key(path).key], 1, name=f"key {path}")


def verify_release(
    bundle: Path, allowed: ReleaseKeys, file: Path | None = None, now: float | None = None
) -> SignedRelease:
    """Check a bundle's release: signatures, then statement, then expiry, then every byte of the bundle.

    Parameters
    ----------
    file
        Path of the envelope; default: the one beside the bundle.
    now
        Seconds since 1970; default: this machine's clock.

    Raises
    ------
    UsageError
        A file cannot be read.
    CheckError
        The release must not be installed; the message says why.
    """
    path, envelope = read_envelope(bundle, file)
    check_release(envelope, allowed, f"release {path}", time.time() if now is None else now)
    return compared(bundle, path, envelope)


def check_release(envelope: Envelope, allowed: ReleaseKeys, what: str, now: float) -> Statement:
    """Check a release without its bundle; `now` is in seconds since 1970.

    Raises
    ------
    CheckError
        It has too few signatures, is no release or from the future, or it or the trust has expired.
    """
    if allowed.expires is not None and now > allowed.expires:
        raise CheckError(
            f"{allowed.name} expired on {day(allowed.expires)}: no release is accepted by it",
            "make its successor: `toolchain release trust rotate TRUST --key ROOT --expires DATE`",
        )
    check_signatures(envelope, allowed.keys, allowed.threshold, what)
    statement = parse_statement(envelope.payload, what)
    if now < statement.predicate.issued - CLOCK_TOLERANCE_S:
        raise CheckError(
            f"{what} is from the future: it was issued on {day(statement.predicate.issued)}",
            "set this machine's clock, or that of the machine that signs",
        )
    if now > statement.predicate.expires:
        raise CheckError(
            f"{what} expired on {day(statement.predicate.expires)}",
            "sign it again with a later --expires",
        )
    return statement


# Describes a release, as JSON and as lines of text.


def describe(signed: SignedRelease) -> dict[str, Any]:
    """Return the document of the commands that sign and verify."""
    release = signed.release
    return {
        "release": str(signed.file.absolute()),
        "bundle": str(signed.bundle.absolute()),
        "digest": signed.digest,
        "app": release.app,
        "version": release.version,
        "issued": release.issued,
        "expires": release.expires,
        "classes": list(release.classes),
        "budget": release.budget.model_dump(),
        "runs": release.test.runs,
        "compared_by_parts": signed.statement.by_parts,
        "verified": release.verified.model_dump() if release.verified else None,
        "signatures": [signature.keyid for signature in signed.envelope.signatures],
    }


def summary(signed: SignedRelease) -> list[str]:
    """Return the same as lines for people."""
    release = signed.release
    verified, budget = release.verified, release.budget
    limits = [
        *([f"{budget.latency_us / 1000:g} ms"] if budget.latency_us else []),
        *([f"{budget.memory_kib / 1024:g} MiB"] if budget.memory_kib else []),
    ]
    return [
        f"app: {release.app} {release.version}",
        f"digest: {signed.digest}",
        f"classes: {', '.join(release.classes)}",
        f"issued: {day(release.issued)}",
        f"expires: {day(release.expires)}",
        f"budget: {' and '.join(limits) or 'none'}, median of {counted(release.test.runs, 'run')}",
        f"verified: on {verified.board_class}, {day(verified.at)}, error {verified.error_ppb / 1e9:.2e}"
        if verified
        else "verified: no",
        *_compared(signed),
        f"signatures: {len(signed.envelope.signatures)}",
    ]


def _compared(signed: SignedRelease) -> Iterator[str]:
    """Yield how the self-test compares the outputs."""
    if not signed.statement.by_parts:
        yield "outputs: each compared as a whole, so that its large values may hide its small ones"
        return
    for number, output in enumerate(signed.release.test.outputs):
        parts = " and ".join(
            f"{len(ends)} along axis {axis}, to {', '.join(map(str, ends))}"
            for axis, ends in (output.parts or {}).items()
        )
        yield f"output {number}: compared {f'by its parts: {parts}' if parts else 'as a whole'}"
