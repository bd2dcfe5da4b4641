"""DSSE envelopes: a payload's bytes with signatures over them (https://github.com/secure-systems-lab/dsse)."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from toolchain.errors import CheckError, UsageError
from toolchain.quantities import counted
from toolchain.releases.keys import SIGNATURE_BYTES, PublicKey
from toolchain.releases.strict_json import MOST_BYTES, dump, parse

MOST_SIGNATURES = 16
_MOST_ID = 256  # bytes


class Signer(Protocol):
    """Holder of a private key: a file, an agent or a security module."""

    @property
    def key(self) -> PublicKey:
        """The public half of its key."""

    def sign(self, message: bytes) -> bytes:
        """Return the 64 bytes of a plain Ed25519 signature."""


@dataclass(frozen=True)
class Signature:
    """One signature of an envelope; who made it is decided by the key that verifies it, not by `keyid`."""

    keyid: str
    value: bytes


@dataclass(frozen=True)
class Envelope:
    """A payload with the signatures over it."""

    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...] = ()

    @property
    def message(self) -> bytes:
        """DSSE's pre-authentication encoding: the bytes that are signed."""
        kind = self.payload_type.encode()
        return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(self.payload), self.payload)

    def to_bytes(self) -> bytes:
        """Return the envelope as JSON on one line, without a line end."""
        return dump(
            {
                "payloadType": self.payload_type,
                "payload": b64encode(self.payload).decode(),
                "signatures": [
                    {"keyid": each.keyid, "sig": b64encode(each.value).decode()} for each in self.signatures
                ],
            }
        )

    def signers(self, keys: Iterable[PublicKey]) -> frozenset[PublicKey]:
        """Return those of `keys` that signed the payload, whatever ids the signatures carry."""
        message = self.message
        return frozenset(
            key for key in keys if any(key.signed(message, each.value) for each in self.signatures)
        )

    def signed_by(self, signer: Signer, what: str) -> Envelope:
        """Return the envelope with one more signature over the stored payload.

        Raises
        ------
        UsageError
            The key signed it before, or it has as many signatures as it may have.
        CheckError
            The signer returned something else than a signature by its key.
        """
        key = signer.key
        if self.signers([key]):
            raise UsageError(
                f"{what} is signed by key {key.fingerprint} already", "sign with another --key, or leave it"
            )
        value = signer.sign(self.message)
        if not key.signed(self.message, value):
            raise CheckError(
                f"what signed for key {key.fingerprint} returned no signature by it",
                "is the agent or module that holds the key to be trusted?",
            )
        return self._with(Signature(key.keyid, value), what)

    def joined(self, other: Envelope, what: str) -> Envelope:
        """Return the envelope with those signatures as well that another one of the same payload has.

        Raises
        ------
        UsageError
            They are too many.
        """
        joined = self
        for each in other.signatures:
            if each.value not in {own.value for own in joined.signatures}:
                joined = joined._with(each, what)
        return joined

    def _with(self, signature: Signature, what: str) -> Envelope:
        if len(self.signatures) == MOST_SIGNATURES:
            raise UsageError(f"{what} has {MOST_SIGNATURES} signatures, the most allowed", "leave it")
        signed = replace(self, signatures=(*self.signatures, signature))
        if (size := len(signed.to_bytes())) > MOST_BYTES:
            raise UsageError(
                f"{what} would have {size} bytes, more than the {MOST_BYTES} allowed",
                "fewer inputs and outputs or shorter texts make it smaller",
            )
        return signed


def parse_envelope(data: bytes, payload_type: str, what: str) -> Envelope:
    """Read an envelope; its signatures are not checked yet.

    Parameters
    ----------
    payload_type
        The type that its payload must have.
    what
        The envelope's name for messages.

    Raises
    ------
    CheckError
        It is no envelope, or of another type.
    """
    try:
        return _envelope(parse(data), payload_type)
    except ValueError as error:
        raise CheckError(
            f"{what} is not a DSSE envelope of {payload_type}: {error}", "get or make the file again"
        ) from error


def _envelope(value: object, payload_type: str) -> Envelope:
    match value:
        case {"payloadType": str(kind), "payload": str(payload), "signatures": list(signatures), **other}:
            pass
        case _:
            raise ValueError("it is not an object with payloadType, payload and signatures")
    if other:
        raise ValueError(f"it has the unknown key {next(iter(other))!r}")
    if kind != payload_type:
        raise ValueError(f"its type is {kind!r}")
    if len(signatures) > MOST_SIGNATURES:
        raise ValueError(f"it has {len(signatures)} signatures, more than the {MOST_SIGNATURES} allowed")
    return Envelope(kind, _base64(payload), tuple(map(_signature, signatures)))


def _signature(value: object) -> Signature:
    match value:
        case {"keyid": str(keyid), "sig": str(sig), **other} if not other:
            decoded = _base64(sig)
        case _:
            raise ValueError("a signature is not an object with keyid and sig")
    if len(keyid.encode()) > _MOST_ID:
        raise ValueError(f"an id has more than the {_MOST_ID} bytes allowed")
    if len(decoded) != SIGNATURE_BYTES:
        raise ValueError(f"a signature has {counted(len(decoded), 'byte')}, not {SIGNATURE_BYTES}")
    return Signature(keyid, decoded)


def _base64(text: str) -> bytes:
    with suppress(ValueError):
        decoded = b64decode(text, validate=True)
        if b64encode(decoded).decode() == text:  # else its last digit has bits that mean nothing
            return decoded
    raise ValueError("a text is not in standard base64")
