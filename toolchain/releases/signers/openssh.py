"""OpenSSH files with Ed25519 keys, with or without a passphrase."""

from __future__ import annotations

import stat
import struct
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from toolchain.errors import UsageError
from toolchain.files.atomic import write_bytes
from toolchain.files.plain import read_limited
from toolchain.releases.envelope import PublicKey

# SSH's way of writing strings into bytes (RFC 4251, section 5), and Ed25519 keys in it (RFC 8709).

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


MADE_BY = "`toolchain release keygen` makes one"
_BEGIN, _END = b"-----BEGIN OPENSSH PRIVATE KEY-----", b"-----END OPENSSH PRIVATE KEY-----"
_MAGIC = b"openssh-key-v1\0"
_MOST_BYTES = 2**16


@dataclass(frozen=True)
class KeyFile:
    """A key of a user's, read from a file.

    Attributes
    ----------
    private
        Whether the file has the private half.
    locked
        Whether a passphrase protects that half.
    """

    path: Path
    key: PublicKey
    private: bool
    locked: bool
    content: bytes


@dataclass(frozen=True)
class FileSigner:
    """A private key that was read from a file."""

    key: PublicKey
    private: Ed25519PrivateKey

    def sign(self, message: bytes) -> bytes:
        """Return the signature."""
        return self.private.sign(message)


def read_key(path: Path) -> KeyFile:
    """Read the public half of an OpenSSH key file, public or private; no passphrase is needed.

    Raises
    ------
    UsageError
        The file cannot be read, is no OpenSSH key or of another kind than Ed25519, or others may read it
        though it is private.
    """
    content = read_limited(path, _MOST_BYTES, "the key", MADE_BY)
    private = content.lstrip().startswith(_BEGIN)
    try:
        key, locked = _private_half(content) if private else (public_line(content.decode("ascii")), False)
    except ValueError as error:
        raise UsageError(
            f"{path} cannot be used as a key: {_why(content, error)}",
            f"releases are signed by Ed25519 keys in OpenSSH's form; {MADE_BY}",
        ) from error
    if private and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise UsageError(f"{path} is a private key that other users may read", f"chmod 600 {path}")
    return KeyFile(path, key, private, locked, content)


def open_signer(file: KeyFile, passphrase: Callable[[Path], str]) -> FileSigner:
    """Read the private half of a key.

    Parameters
    ----------
    passphrase
        Asks for the passphrase of a file; called only if there is one.

    Raises
    ------
    UsageError
        The passphrase is wrong, or the file is damaged.
    """
    password = passphrase(file.path).encode() if file.locked else None
    try:
        private = serialization.load_ssh_private_key(file.content, password)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if file.locked:
            raise UsageError(
                f"{file.path}: the passphrase is wrong, or the file is damaged", "run the same command again"
            ) from error
        raise UsageError(f"{file.path} is damaged: {error}", MADE_BY) from error
    if not isinstance(private, Ed25519PrivateKey) or private.public_key().public_bytes_raw() != file.key.raw:
        raise UsageError(f"{file.path} is damaged: its halves do not belong together", MADE_BY)
    return FileSigner(file.key, private)


def make_pair(path: Path, passphrase: str) -> PublicKey:
    """Write a new key to `path` (mode 0600) and its public half to `path`.pub.

    Parameters
    ----------
    passphrase
        Protects the private half; empty: nothing does.

    Raises
    ------
    UsageError
        One of the files exists.
    ToolchainError
        The file system refuses.
    """
    check_free(path)
    private = Ed25519PrivateKey.generate()
    protected = (
        serialization.BestAvailableEncryption(passphrase.encode())
        if passphrase
        else serialization.NoEncryption()
    )
    text = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, protected)
    key = PublicKey(private.public_key().public_bytes_raw())
    write_bytes(path, text, mode=0o600)
    write_bytes(public_path(path), f"{key.openssh} {path.name}\n".encode())
    return key


def check_free(path: Path) -> None:
    """Check that a new key overwrites nothing.

    Raises
    ------
    UsageError
        `path` or `path`.pub exists.
    """
    for file in (path, public_path(path)):
        if file.exists() or file.is_symlink():
            raise UsageError(f"{file} exists; a key is never overwritten", "name another file: -o FILE")


def public_path(path: Path) -> Path:
    """Return the path of the public half beside a private key."""
    return path.with_name(f"{path.name}.pub")


def _private_half(content: bytes) -> tuple[PublicKey, bool]:
    """Return the public key in a private file, and whether the file has a passphrase."""
    body = content.strip().removeprefix(_BEGIN).removesuffix(_END)
    data = b64decode(b"".join(body.split()), validate=True)
    if not data.startswith(_MAGIC):
        raise ValueError("it is damaged")
    cipher, rest = take(data[len(_MAGIC) :])
    _, rest = take(rest)  # the key derivation
    _, rest = take(rest)  # its options
    blob, _ = take(rest[4:])  # behind the number of keys
    return public_key(blob), cipher != b"none"


def _why(content: bytes, error: ValueError) -> str:
    """Return a sentence about a file that is no key of ours."""
    if content.lstrip().startswith(b"-----BEGIN"):
        kind = content.lstrip().split(b"\n", 1)[0][:60].decode("ascii", "backslashreplace").strip("-\r ")
        return str(error) if kind.endswith("OPENSSH PRIVATE KEY") else f"it begins with {kind!r}"
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    return str(error)
