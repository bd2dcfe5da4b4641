"""The board's JSON reader against Python's: what it accepts, Python accepts, and reads the same in it."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.field.program import Checks, RefusalError
from toolchain.releases.envelope import parse

pytestmark = pytest.mark.slow  # the program may have to be compiled

LARGEST = 2**53
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=30,
)
# Texts that are nearly JSON.
PIECES = st.sampled_from(
    (
        *'{}[],:"\\ \n\t',
        *(
            "true",
            "null",
            "NaN",
            "-",
            "0",
            "01",
            "1.5",
            "1e9",
            "9007199254740993",
            '"a"',
            '"\\u00e4"',
            '"a":1',
        ),
        *(
            '"\\ud800"',
            '"\\ud83d\\ude00"',
            '"\\u0000"',
            '"\\x"',
            "\x00",
            "\x7f",
            "ü",
            "\ufeff",
            "/**/",
            "'a'",
        ),
    )
)


def same(one: Any, other: Any) -> bool:
    """Whether values are equal, where True is not 1, and keys are in one order."""
    return type(one) is type(other) and json.dumps(one) == json.dumps(other)


def read(checks: Checks, text: bytes) -> Any:
    return checks.ask("json", text)


def levels(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels, inner), default=0)


@given(value=VALUES, ascii_only=st.booleans(), indent=st.none() | st.integers(0, 3))
def test_what_python_writes_is_read_as_it_was(
    checks: Checks, value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    if levels(value) > 8 or "\\u0000" in json.dumps(value):
        assert checks.refusal("json", text) == "text"
    else:
        assert same(read(checks, text), value)


@given(pieces=st.lists(PIECES, max_size=12))
def test_nothing_is_accepted_that_python_or_the_host_refuses(checks: Checks, pieces: list[str]) -> None:
    text = "".join(pieces).encode()
    try:
        ours = read(checks, text)
    except RefusalError:
        with pytest.raises(ValueError):
            parse(text)  # the host is as strict
    else:
        assert same(ours, json.loads(text.decode()))


@given(data=st.binary(max_size=40), quoted=st.booleans())
def test_bytes_that_are_no_text(checks: Checks, data: bytes, quoted: bool) -> None:
    text = b'"' + data + b'"' if quoted else data
    try:
        ours = read(checks, text)
    except RefusalError:
        with pytest.raises(ValueError):
            parse(text)
    else:
        assert same(ours, json.loads(text.decode()))


REFUSED = {
    "a key twice": b'{"a":1,"b":2,"a":1}',
    "a key twice, once escaped": b'{"a":1,"\\u0061":1}',
    "nine levels": b"[" * 9 + b"]" * 9,
    "endless levels": b"[" * 200_000,
    "endless objects": b'{"a":' * 50_000,
    "too many values": b"[" + b"0," * 4095 + b"0]",
    "too many bytes": b" " * 262_144 + b"0",
    "a number beyond 2^53": b"9007199254740993",
    "a number beyond 2^64": b"18446744073709551617",
    "an endless number": b"1" * 100_000,
    "minus zero": b"-0",
    "a leading zero": b"01",
    "a plus": b"+1",
    "a point": b"1.0",
    "an exponent": b"1e3",
    "not a number": b"NaN",
    "infinity": b"-Infinity",
    "a lone high surrogate": b'"\\ud800"',
    "a lone low surrogate": b'"\\udc00"',
    "two high surrogates": b'"\\ud800\\ud800"',
    "an escaped NUL": b'"\\u0000"',
    "a NUL": b'"\x00"',
    "a NUL behind it": b"1\x00",
    "a control character": b'"\n"',
    "an overlong character": b'"\xc0\xaf"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "beyond Unicode": b'"\xf4\x90\x80\x80"',
    "half a character": b'"\xe2\x82"',
    "a byte order mark": b"\xef\xbb\xbf1",
    "UTF-16": "[1]".encode("utf-16"),
    "a comment": b"/*x*/1",
    "a comma at the end": b"[1,]",
    "two values": b"1 2",
    "nothing": b"",
    "an unknown escape": b'"\\a"',
    "an escape that is cut off": b'"\\u12',
    "a key without quotes": b"{a:1}",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_refused(checks: Checks, text: bytes) -> None:
    assert checks.refusal("json", text) == "text"


def test_limits_are_inclusive(checks: Checks) -> None:
    deep = b"[" * 8 + b"]" * 8
    assert read(checks, deep) == json.loads(deep)
    many = b"[" + b"0," * 4094 + b"0]"
    assert len(read(checks, many)) == 4095
    assert read(checks, b" " * 262_143 + b"1") == 1
    assert read(checks, b"[9007199254740992,-9007199254740992]") == [LARGEST, -LARGEST]


def test_a_refusal_says_where(checks: Checks) -> None:
    with pytest.raises(RefusalError, match="at byte 5: a colon is missing"):
        checks.ask("json", b'{"a" 1}')


@given(data=st.binary(max_size=50))
def test_base64_is_read_in_one_form(checks: Checks, data: bytes) -> None:
    from base64 import b64encode, urlsafe_b64encode

    text = b64encode(data)
    assert checks.ask("base64", text) == [len(data)]
    assert checks.ask("base64", text + b"\n") is None
    if text.rstrip(b"=") != text:
        assert checks.ask("base64", text.rstrip(b"=")) is None
        last = text.rstrip(b"=")[-1:].decode()
        digits = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
        other = digits[digits.index(last) | 1].encode()  # bits that mean nothing
        assert checks.ask("base64", text.rstrip(b"=")[:-1] + other + b"=" * text.count(b"=")) is None
    if urlsafe_b64encode(data) != text:
        assert checks.ask("base64", urlsafe_b64encode(data)) is None
