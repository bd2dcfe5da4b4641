"""DSSE envelopes: a payload's bytes with signatures over them (https://github.com/secure-systems-lab/dsse)."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Protocol

from toolchain.errors import CheckError, UsageError
from toolchain.quantities import counted

# Reads JSON as strictly as boards do, so that host and board never read one payload in two ways.

MOST_BYTES = 262144
MOST_VALUES = 4096
DEEPEST = 8
LARGEST = 2**53  # every integer up to it is exact in a double, which other readers may use

_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(data: bytes) -> Any:
    """Return the value of a JSON document with integers alone.

    Raises
    ------
    ValueError
        It is no such document, or it exceeds a limit of docs/release-format.md.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has {len(data)} bytes, more than the {MOST_BYTES} allowed")
    if data.startswith(b"\xef\xbb\xbf"):
        raise ValueError("it begins with a byte order mark")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_float=_refuse_float,
            parse_constant=_refuse_float,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON (line {error.lineno}, column {error.colno})") from None
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8") from None
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEEPEST} levels") from None
    if (count := _check(value, 0)) > MOST_VALUES:
        raise ValueError(f"it has {count} values, more than the {MOST_VALUES} allowed")
    return value


def dump(value: Any) -> bytes:
    """Return the shortest JSON of a value, as UTF-8 on one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has one key twice")
    return value


def _refuse_float(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is not an integer")


def _integer(text: str) -> int:
    if len(text) > 17 or text == "-0" or abs(int(text)) > LARGEST:
        raise ValueError(f"{text[:40]} is not an integer between -2^53 and 2^53")
    return int(text)


def _check(value: Any, depth: int) -> int:
    """Return how many values there are in `value`, itself included; refuse depth and odd characters."""
    if isinstance(value, str):
        _check_text(value)
        return 1
    if not isinstance(value, dict | list):
        return 1
    if depth == DEEPEST:
        raise ValueError(f"it is nested deeper than {DEEPEST} levels")
    if isinstance(value, list):
        return 1 + sum(_check(item, depth + 1) for item in value)
    for key in value:
        _check_text(key)
    return 1 + sum(_check(item, depth + 1) for item in value.values())


def _check_text(text: str) -> None:
    if "\0" in text or _SURROGATE.search(text):
        raise ValueError("a text has a NUL or half of a surrogate pair")


# Public Ed25519 keys, and the check of a signature by libsodium.

KEY_BYTES = 32
SIGNATURE_BYTES = 64


@dataclass(frozen=True, order=True)
class PublicKey:
    """A public Ed25519 key: a point of the curve's main subgroup, 32 bytes."""

    raw: bytes

    def __post_init__(self) -> None:
        """Refuse what is no key, such as points of small order, for which anybody can sign.

        Raises
        ------
        ValueError
            The bytes are no such point.
        """
        from nacl.bindings import crypto_core_ed25519_is_valid_point

        if len(self.raw) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(self.raw)}")
        if not crypto_core_ed25519_is_valid_point(self.raw):
            raise ValueError(f"{self.raw.hex()} is not a safe Ed25519 key: anybody could sign for it")

    @property
    def keyid(self) -> str:
        """SHA-256 of the key's bytes in hexadecimal digits."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def openssh(self) -> str:
        """The key as OpenSSH writes it, without a comment."""
        return f"ssh-ed25519 {b64encode(self._blob).decode()}"

    @property
    def fingerprint(self) -> str:
        """The key's fingerprint as `ssh-keygen -l` prints it."""
        digest = hashlib.sha256(self._blob).digest()
        return f"SHA256:{b64encode(digest).decode().rstrip('=')}"

    @property
    def _blob(self) -> bytes:
        return b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + self.raw

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether `signature` is this key's for `message`, as libsodium decides."""
        from nacl.exceptions import BadSignatureError
        from nacl.signing import VerifyKey

        if len(signature) != SIGNATURE_BYTES:
            return False
        try:
            VerifyKey(self.raw).verify(message, signature)
        except BadSignatureError:
            return False
        return True


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
            key for key in keys if any(key.signed(message, signature.value) for signature in self.signatures)
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
        for signature in other.signatures:
            if signature.value not in {own.value for own in joined.signatures}:
                joined = joined._with(signature, what)
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
