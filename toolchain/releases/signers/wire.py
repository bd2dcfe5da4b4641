"""SSH's way of writing strings into bytes (RFC 4251, section 5), and Ed25519 keys in it (RFC 8709)."""

from __future__ import annotations

import struct
from base64 import b64decode

from toolchain.releases.keys import PublicKey

ED25519 = "ssh-ed25519"


def string(data: bytes) -> bytes:
    """Return a string as SSH writes it: its length, then its bytes."""
    return struct.pack(">I", len(data)) + data


def take(data: bytes) -> tuple[bytes, bytes]:
    """Return the first string in `data`, and the bytes behind it.

    Raises
    ------
    ValueError
        There is no whole string.
    """
    size = int.from_bytes(data[:4], "big")
    if len(data) < 4 + size:
        raise ValueError("it is cut short")
    return data[4 : 4 + size], data[4 + size :]


def public_key(blob: bytes) -> PublicKey:
    """Return the Ed25519 key in a blob.

    Raises
    ------
    ValueError
        It is a key of another kind, or no key.
    """
    kind, rest = take(blob)
    if kind != ED25519.encode():
        raise ValueError(f"it is a key of kind {kind.decode('ascii', 'backslashreplace')[:40]}")
    raw, rest = take(rest)
    if rest:
        raise ValueError("it is more than one key")
    return PublicKey(raw)


def public_line(text: str) -> PublicKey:
    """Return the key in a line such as `ssh-ed25519 AAAA… comment`; errors as of `public_key`."""
    kind, _, rest = text.strip().partition(" ")
    if kind != ED25519:
        raise ValueError(f"it is a key of kind {kind[:40]!r}")
    return public_key(b64decode(rest.partition(" ")[0], validate=True))
