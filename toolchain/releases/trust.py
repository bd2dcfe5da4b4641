"""A trust: whose signatures count, and how many of them."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from toolchain.answers import Several, problem
from toolchain.errors import CheckError, UsageError
from toolchain.files.atomic import write_bytes
from toolchain.files.plain import read_limited
from toolchain.quantities import counted
from toolchain.releases.envelope import LARGEST, Envelope, PublicKey, dump, parse, parse_envelope

# Moments as text.


def day(moment: int) -> str:
    """Return a moment in seconds since 1970 as text, in UTC."""
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError):
        return f"{moment} s after 1970"


# Decides whether enough keys signed an envelope, by two libraries that do not share code.


def check_signatures(envelope: Envelope, keys: Collection[PublicKey], threshold: int, what: str) -> None:
    """Check that at least `threshold` distinct keys signed the payload.

    libsodium, by which boards check, decides for each key; then securesystemslib, which uses OpenSSL, must
    come to the same end. It counts key ids, so it gets one signature for each key, under the id that we
    compute.

    Raises
    ------
    CheckError
        Too few of the keys signed it.
    """
    signers = envelope.signers(set(keys))
    if len(signers) < threshold:
        known = ", ".join(sorted(key.fingerprint for key in signers))
        raise CheckError(
            f"{what} is signed by {len(signers)} of the {counted(threshold, 'trusted key')} that it needs"
            + (f" ({known})" if known else ""),
            "let another holder of a trusted key sign it, or give the trust that it was signed for",
        )
    if len(_accepted(envelope, signers, threshold)) < threshold:
        raise CheckError(
            f"{what}: libsodium accepts its signatures, OpenSSL does not", "do not use it, and report this"
        )


def _accepted(envelope: Envelope, signers: Collection[PublicKey], threshold: int) -> Collection[str]:
    """Return the ids of the keys whose signatures securesystemslib accepts."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from securesystemslib.dsse import Envelope as Dsse
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import Key, Signature, SSlibKey  # type: ignore[attr-defined]

    message, found = envelope.message, {}
    for key in signers:
        value = next(each.value for each in envelope.signatures if key.signed(message, each.value))
        found[key.keyid] = Signature(key.keyid, value.hex())
    keys: list[Key] = [
        SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(key.raw), keyid=key.keyid) for key in signers
    ]
    try:
        return set(Dsse(envelope.payload, envelope.payload_type, found).verify(keys, threshold))
    except VerificationError:
        return ()


# Types of the fields of trusts and statements.

_MOST_WORD = 256  # bytes


class Strict(BaseModel):
    """Base class of signed objects: exact types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _plain(text: str) -> str:
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise ValueError("it must not have control characters")
    if not 1 <= len(text.encode()) <= _MOST_WORD:
        raise ValueError(f"it must have 1 to {_MOST_WORD} bytes")
    return text


Hex = Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
"""32 bytes in hexadecimal digits."""

Word = Annotated[StrictStr, AfterValidator(_plain)]
"""A name of 1 to 256 bytes without control characters."""

Count = Annotated[StrictInt, Field(ge=0, le=LARGEST)]
"""A whole number, which JSON readers keep exactly."""

Moment = Annotated[StrictInt, Field(ge=1, le=LARGEST)]
"""Seconds since 1970."""


TRUST_TYPE = "application/vnd.edge-toolchain.trust+json"
MOST_KEYS = 32


class TrustedKey(Strict):
    """A public key with its id."""

    keyid: Hex
    public: Hex

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.key.keyid != self.keyid:
            raise ValueError(f"the id of {self.public} is not {self.keyid}")
        return self

    @property
    def key(self) -> PublicKey:
        """The public key."""
        return PublicKey(bytes.fromhex(self.public))


class Role(Strict):
    """The keys that may sign for a role, and how many of them must."""

    keyids: Several[Hex] = Field(min_length=1, max_length=MOST_KEYS)
    threshold: Annotated[StrictInt, Field(ge=1)]

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if len(set(self.keyids)) != len(self.keyids):
            raise ValueError("a key id occurs twice")
        if self.threshold > len(self.keyids):
            raise ValueError(f"threshold is {self.threshold}, but it has {counted(len(self.keyids), 'key')}")
        return self


class Trust(Strict):
    """Whose signatures count: `root` signs the next trust, `release` signs releases."""

    format: Annotated[StrictInt, Field(ge=1, le=1)] = 1
    version: Annotated[StrictInt, Field(ge=1, le=LARGEST)]
    expires: Moment
    keys: Several[TrustedKey] = Field(min_length=1, max_length=MOST_KEYS)
    root: Role
    release: Role

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        known = [key.keyid for key in self.keys]
        if len(set(known)) != len(known):
            raise ValueError("a key occurs twice")
        for name, role in (("root", self.root), ("release", self.release)):
            if strangers := set(role.keyids) - set(known):
                raise ValueError(f"{name}: {min(strangers)} is not among the keys")
        return self

    def keys_of(self, role: Role) -> list[PublicKey]:
        """Return the keys of a role."""
        return [each.key for each in self.keys if each.keyid in role.keyids]

    def check_root(self, envelope: Envelope, what: str) -> None:
        """Check that the root threshold of this trust signed an envelope.

        Raises
        ------
        CheckError
            Too few root keys signed it.
        """
        what = f"{what}, for the root keys of version {self.version},"
        check_signatures(envelope, self.keys_of(self.root), self.root.threshold, what)

    def enveloped(self) -> Envelope:
        """Return the trust in an envelope without signatures."""
        return Envelope(TRUST_TYPE, dump(self.model_dump(mode="json")))


def trust_of(envelope: Envelope, what: str) -> Trust:
    """Read the trust in an envelope whose signatures are not checked yet.

    A trust names the keys that must have signed it, so it is parsed before.

    Raises
    ------
    CheckError
        It is no trust, or of another format.
    """
    try:
        values = parse(envelope.payload)
        if isinstance(values, dict) and type(values.get("format")) is int and values["format"] != 1:
            raise CheckError(
                f"{what} has format {values['format']}, this toolchain reads format 1",
                "upgrade with: pip install --upgrade edge-toolchain",
            )
        return Trust.model_validate(values)
    except ValidationError as error:
        raise CheckError(f"{what} is not a trust: {problem(error)}", "get the file again") from error
    except ValueError as error:
        raise CheckError(f"{what} is not a trust: {error}", "get the file again") from error


def check_chain(envelopes: Sequence[Envelope], what: str) -> list[Trust]:
    """Check trusts, oldest first, as a board would that takes them one after the other.

    Raises
    ------
    CheckError
        One is no trust, skips a version, or lacks signatures of its own root keys or its predecessor's.
    """
    trusts: list[Trust] = []
    for number, envelope in enumerate(envelopes, 1):
        name = f"{what}, line {number}" if len(envelopes) > 1 else what
        trust = trust_of(envelope, name)
        if trusts:
            if trust.version != trusts[-1].version + 1:
                raise CheckError(
                    f"{name} has version {trust.version} after {trusts[-1].version}",
                    "each version must follow the one before; get the file again",
                )
            trusts[-1].check_root(envelope, name)
        trust.check_root(envelope, name)
        trusts.append(trust)
    return trusts


# The trust file: the envelopes of all versions of a trust, oldest first, one in each line.

MOST_VERSIONS = 256
"""Versions of a trust in one file: the header of a stream lists the sizes of all."""

MOST_BYTES = 16 * 2**20
"""Largest trust file."""

MADE_BY = "`toolchain release init` makes one"


@dataclass(frozen=True)
class TrustChain:
    """All versions of a trust, each signed as its predecessor wants; the newest counts."""

    path: Path
    envelopes: tuple[Envelope, ...]
    newest: Trust

    def to_bytes(self) -> bytes:
        """Return the content of the trust file."""
        return b"".join(each.to_bytes() + b"\n" for each in self.envelopes)

    def write(self) -> None:
        """Write the trust file atomically; errors as of `files.atomic.replacing`."""
        write_bytes(self.path, self.to_bytes())


def read_trust(path: Path) -> TrustChain:
    """Read a trust file and check every version's signatures; expiry is the caller's business.

    Raises
    ------
    UsageError
        The file cannot be read, or is too large.
    CheckError
        It is no trust, or a version lacks signatures or skips a number.
    """
    lines = read_limited(path, MOST_BYTES, "the trust", MADE_BY).splitlines()
    if not lines:
        raise UsageError(f"{path} is not a trust: it is empty", MADE_BY)
    if len(lines) > MOST_VERSIONS:
        raise CheckError(
            f"{path} has {len(lines)} versions, more than the {MOST_VERSIONS} allowed", "get the file again"
        )
    what = f"trust {path}"
    envelopes = [parse_envelope(line, TRUST_TYPE, what) for line in lines]
    return TrustChain(path, tuple(envelopes), check_chain(envelopes, what)[-1])
