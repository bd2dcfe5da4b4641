"""Public Ed25519 keys, and the check of a signature by libsodium."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import dataclass

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
