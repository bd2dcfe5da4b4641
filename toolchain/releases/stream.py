"""The stream that carries a release to a board, as a file or as a dialogue with `edge-rt install -`."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.errors import UsageError
from toolchain.releases.envelope import Envelope
from toolchain.releases.signed import SignedRelease
from toolchain.releases.strict_json import dump

MAGIC = b"edge-release 1\n"
MOST_HEADER = 4096


def stream_head(
    signed: SignedRelease,
    trust: Sequence[Envelope] = (),
    *,
    newest: str | None = None,
    downgrade: bool = False,
    board_class: str | None = None,
    attempt: str | None = None,
) -> bytes:
    """Return everything before the parts: magic, header, envelopes of the trust and of the release.

    Parameters
    ----------
    trust
        Envelopes of the trust, oldest first; a board passes over those that it has.
    newest
        The newest version of the application that this host knows.
    downgrade
        Whether the operator allows an older version than the board has.
    board_class
        What the host calls the board's class; None in a file, for which the board's policy says it.
    attempt
        The number of this attempt, 16 hexadecimal digits, by which the host asks for its result after a lost
        link; None in a file, which an edge-rt of version 0.1.0 may read.

    Raises
    ------
    UsageError
        The trust has more versions than a header can list.
    """
    envelopes = [each.to_bytes() for each in trust]
    release = signed.envelope.to_bytes()
    header: dict[str, object] = {
        "app": signed.release.app,
        "trust": [len(each) for each in envelopes],
        "release": len(release),
        "newest": newest,
        "downgrade": downgrade,
        "class": board_class,
    }
    if attempt is not None:
        header["attempt"] = attempt
    line = dump(header) + b"\n"
    if len(line) > MOST_HEADER:
        raise UsageError(
            f"the trust has too many versions for one stream: {len(envelopes)}",
            "remove the oldest lines of the trust file that no board needs any more",
        )
    return b"".join([MAGIC, line, *envelopes, release])
