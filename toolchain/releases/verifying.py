"""Verifies a release on the host, by the rules of the board."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchain.errors import CheckError
from toolchain.releases.checking import check_signatures
from toolchain.releases.envelope import Envelope
from toolchain.releases.keys import PublicKey
from toolchain.releases.moments import day
from toolchain.releases.signed import SignedRelease, compared, read_envelope
from toolchain.releases.statement import Statement, parse_statement
from toolchain.releases.trust_file import TrustChain

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
