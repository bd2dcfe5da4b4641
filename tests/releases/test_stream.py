"""The stream's head and the parts behind it."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.releases.conftest import Release
from tests.releases.made import ANNA, BERT, trust
from toolchain.errors import UsageError
from toolchain.releases.export import stream_head
from toolchain.releases.signed_release import open_release


def test_parts_are_read_from_the_bundle_from_any_byte_on(signed: Release) -> None:
    release = open_release(signed(ANNA))
    assert [part.name for part in release.parts] == [
        "manifest.json",
        "library.so",
        "sample/0.npy",
        *(f"expected/{n}.npy" for n in range(4)),
    ]
    for index, part in enumerate(release.parts):
        whole = b"".join(release.part(index))
        assert hashlib.sha256(whole).hexdigest() == part.sha256
        for offset in (0, 1, part.size - 1, part.size):
            assert b"".join(release.part(index, offset)) == whole[offset:]
    assert hashlib.sha256(release.bundle.read_bytes()).hexdigest() == release.digest


def test_the_head_lists_what_follows(signed: Release) -> None:
    release = open_release(signed(ANNA))
    first = trust([ANNA], [ANNA]).enveloped().signed_by(ANNA, "trust")
    head = stream_head(release, [first], newest="2.1.0", board_class="rk3399")
    magic, line, rest = head.split(b"\n", 2)
    header = json.loads(line)
    assert magic == b"edge-release 1"
    assert header == {
        "app": "tiny",
        "trust": [len(first.to_bytes())],
        "release": len(release.envelope.to_bytes()),
        "newest": "2.1.0",
        "downgrade": False,
        "class": "rk3399",
    }
    assert rest == first.to_bytes() + release.envelope.to_bytes()


def test_a_head_has_room_for_a_long_chain_and_no_more(signed: Release) -> None:
    release = open_release(signed(ANNA))
    envelope = trust([ANNA, BERT], [ANNA]).enveloped()
    assert len(stream_head(release, [envelope] * 512).split(b"\n", 2)[1]) < 4096
    with pytest.raises(UsageError, match="too many versions"):
        stream_head(release, [envelope] * 2000)
