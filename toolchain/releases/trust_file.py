"""The trust file: the envelopes of all versions of a trust, oldest first, one in each line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolchain.errors import CheckError, UsageError
from toolchain.files.atomic import write_bytes
from toolchain.releases.envelope import Envelope, parse_envelope
from toolchain.releases.reading import read_limited
from toolchain.releases.trust import TRUST_TYPE, Trust, check_chain

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
