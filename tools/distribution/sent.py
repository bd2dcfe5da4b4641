"""What a host sends on the stream to a board: the words of its commands, and bytes."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from toolchain.boards.edge_rt.install import command
from toolchain.releases.export import stream_head
from toolchain.releases.signed_release import open_release
from toolchain.releases.trust import read_trust

ARCH = "x86_64"
APP = "tiny"
ATTEMPT = "0123456789abcdef"


@dataclass(frozen=True)
class Sent:
    """What a host sends to a board.

    Attributes
    ----------
    words
        The command line of each verb, without the program.
    trust
        The envelope of the board's first trust.
    heads
        Streams up to the parts: `first` of the older release, `second` and, in a file, `file` of the newer
        one, and `class` like `first` for a board of another class.
    parts
        The parts of the release of each head.
    """

    words: dict[str, list[str]]
    trust: bytes
    heads: dict[str, bytes]
    parts: dict[str, list[bytes]]

    def to_json(self) -> dict[str, Any]:
        """Return a document in which each sequence of bytes occurs once."""
        contents = [self.trust, *self.heads.values(), *chain.from_iterable(self.parts.values())]
        return {
            "words": self.words,
            "trust": _name(self.trust),
            "heads": {name: _name(each) for name, each in self.heads.items()},
            "parts": {name: [_name(each) for each in parts] for name, parts in self.parts.items()},
            "bytes": {_name(each): base64.b64encode(each).decode() for each in contents},
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Sent:
        """Return what `to_json` wrote."""
        found = {name: base64.b64decode(text) for name, text in document["bytes"].items()}
        heads = {name: found[each] for name, each in document["heads"].items()}
        parts = {name: [found[each] for each in parts] for name, parts in document["parts"].items()}
        return cls(document["words"], found[document["trust"]], heads, parts)


def sent_today(older: Path, newer: Path, trust: Path) -> Sent:
    """Return what hosts of this version send of two bundles that are signed."""
    first, second = open_release(older), open_release(newer)
    envelopes = read_trust(trust).envelopes
    at = ("--field", "field")
    contents = {
        each.bundle: [b"".join(each.part(index)) for index in range(len(each.parts))]
        for each in (first, second)
    }
    return Sent(
        words={
            "install": command("", "install", "-", *at)[1:],
            "rollback": command("", "rollback", *at, "--app", APP)[1:],
            "prune": ["prune", *at, "--app", APP],
            "trust": ["trust", *at, "--first"],
            "status": ["status", *at],
            "recover": ["recover", *at],
        },
        trust=envelopes[0].to_bytes(),
        heads={
            "first": stream_head(first, envelopes, board_class=ARCH, attempt=ATTEMPT),
            "class": stream_head(first, envelopes, board_class="rk3399", attempt=ATTEMPT),
            "second": stream_head(
                second, envelopes, newest=second.release.version, board_class=ARCH, attempt=ATTEMPT
            ),
            "file": stream_head(second, envelopes, newest=second.release.version),
        },
        parts={
            "first": contents[older],
            "class": contents[older],
            "second": contents[newer],
            "file": contents[newer],
        },
    )


def _name(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
