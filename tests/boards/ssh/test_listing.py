"""A folder's entries are those of a folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.boards.ssh.transport import MOST_LISTING, parse_listing
from toolchain.boards.transport import RemoteFile
from toolchain.errors import CheckError


def test_entries_have_size_and_time() -> None:
    assert parse_listing(b"3 1700000000 a b\n0 -5 .x\n", "b", "lib") == {
        "a b": RemoteFile(3, 1.7e9),
        ".x": RemoteFile(0, -5.0),
    }


@pytest.mark.parametrize(
    "line",
    [b"1 2", b"x 2 a", b"1 nan a", b"1 1e400 a", b"-1 2 a", b"9" * 5000 + b" 1 a", b"1 2 a/../../b", b"\xff"],
)
def test_listing_ignores_malformed_lines(line: bytes) -> None:
    assert parse_listing(line + b"\n1 2 good\n", "b", "lib") == {"good": RemoteFile(1, 2.0)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"1 2 ..\n", r"'\.\.' is no entry"),
        (b"1 2 .\n", "no entry"),
        (b"x" * (MOST_LISTING + 1), "more than"),
        (b"".join(b"1 2 %d\n" % number for number in range(100_000)), "it has 10001 entries or more"),
    ],
)
def test_refuses_impossible_listing(text: bytes, says: str) -> None:
    with pytest.raises(CheckError, match=f"board far: the listing of its folder lib .*{says}"):
        parse_listing(text, "far", "lib")


@given(st.binary())
def test_parser_never_crashes(text: bytes) -> None:
    for name in parse_listing(text, "b", "lib"):
        assert "/" not in name
