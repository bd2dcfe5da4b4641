"""Reads whose signatures count, from a trust file or an OpenSSH public key."""

from __future__ import annotations

from pathlib import Path

from toolchain.releases.reading import read_limited
from toolchain.releases.signed import ReleaseKeys, release_keys
from toolchain.releases.signers.openssh import read_key
from toolchain.releases.trust import MADE_BY, MOST_BYTES, read_trust


def read_release_keys(path: Path) -> ReleaseKeys:
    """Return the keys that may sign releases, by a trust file or one public key.

    Raises
    ------
    UsageError
        The file cannot be read, or is a key of another kind.
    CheckError
        It is a trust whose signatures fail.
    """
    content = read_limited(path, MOST_BYTES, "the trust", MADE_BY)
    if content.lstrip().startswith(b"{"):
        return release_keys(read_trust(path))
    return ReleaseKeys([read_key(path).key], 1, name=f"key {path}")
