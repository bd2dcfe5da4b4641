"""The strict reader: what Python's takes and boards don't is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.releases.envelope import LARGEST, MOST_BYTES, dump, parse

REFUSED = [
    (b'{"a": 1, "a": 2}', "twice"),
    (b'{"a": {"b": 1, "b": 1}}', "twice"),
    (b"1.5", "not an integer"),
    (b"1e3", "not an integer"),
    (b"1.0", "not an integer"),
    (b"-0", "not an integer"),
    (b"NaN", "not an integer"),
    (b"-Infinity", "not an integer"),
    (str(LARGEST + 1).encode(), "not an integer"),
    (b"9" * 5000, "not an integer"),
    (b"01", "not JSON"),
    (b"+1", "not JSON"),
    (b"[1,]", "not JSON"),
    (b"{'a': 1}", "not JSON"),
    (b'"\x01"', "not JSON"),
    (b'"\\u0000"', "NUL"),
    (b'"\\ud800"', "surrogate"),
    (b'{"\\udfff": 1}', "surrogate"),
    (b'"\xff"', "not text in UTF-8"),
    (b'"\xc0\x80"', "not text in UTF-8"),
    (b'"\xed\xa0\x80"', "not text in UTF-8"),
    (b"\xef\xbb\xbf1", "byte order mark"),
    (b"[" * 9 + b"]" * 9, "deeper"),
    (b"[" * 100_000, "deeper"),
    (b"[" + b"1," * 4095 + b"1]", "values"),
    (b'"' + b"a" * MOST_BYTES + b'"', "bytes"),
    (b"", r"not JSON \(line 1, column 1\)"),
    (b"1 2", "not JSON"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[repr(row[0][:20]) for row in REFUSED])
def test_what_boards_refuse(text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)


def test_the_limits_themselves_are_allowed() -> None:
    assert parse(str(LARGEST).encode()) == LARGEST and parse(str(-LARGEST).encode()) == -LARGEST
    parse(b"[" * 8 + b"]" * 8)
    assert len(parse(b"[" + b"1," * 4094 + b"1]")) == 4095
    assert len(parse(b'"' + b"a" * (MOST_BYTES - 2) + b'"')) == MOST_BYTES - 2


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(_VALUES)
def test_what_is_written_is_read(value: object) -> None:
    assert parse(dump([value])) == [value]


@given(st.binary(max_size=40) | _VALUES.map(lambda value: json.dumps(value).encode()))
def test_nothing_but_a_value_error(text: bytes) -> None:
    try:
        value = parse(text)
    except ValueError:
        return
    assert json.loads(text) == value
