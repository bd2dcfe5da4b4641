"""What a server says of itself, a line at a time."""

from __future__ import annotations

import pytest

from toolchain.rpc.keeper import _document

NOTHING = ("[]", "5", "null", "abc", "", "[" * 60_000, '{"port": "5000"}', '{"port": -1}', '{"port": 70000}')


@pytest.mark.parametrize(
    "line",
    [*NOTHING, '{"port": true}', '{"port": 1e300}', '{"port": NaN}', '{"error": "x"}', '{"error": [1]}'],
)
def test_a_line_of_another_form_says_nothing(line: str) -> None:
    said = _document(line)
    assert said.port is None and said.error is None


def test_a_port_or_an_error() -> None:
    assert _document('{"port": 5000, "key": "x"}').port == 5000
    error = _document('{"error": {"kind": "io", "message": "cannot \\u001b[2J listen"}}').error
    assert error is not None and error.message.startswith("cannot ") and "\x1b" not in error.message
