"""What foreign libraries and programs say, as one line of an error of ours."""

from __future__ import annotations

import pytest

from toolchain.foreign import LONGEST, first_line, last_line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("Check failed: a == b\n\nThe IR is:\n@I.ir_module\n", "Check failed: a == b"),
        ("RPCError: Error caught from RPC call:\n  InternalError: gone\n", "InternalError: gone"),
        ('Traceback (most recent call last):\n  File "x.py", line 1\nValueError: bad\n', "ValueError: bad"),
        ("", "ValueError"),
        ("failed with errors: \nInvalid operand\n  %6 = fcmp\n", "failed with errors: Invalid operand"),
        ("nothing behind:", "nothing behind:"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        (
            "FAIL : /onnxruntime_src/a/b.cc:2 void ort::F(const X&) const no such thing",
            "FAIL : no such thing",
        ),
        ("got [T.int64(5), T.float32(-1.5), n]", "got [5, -1.5, n]"),
        ("FAIL : /onnxruntime_src/a/b.cc:2 no such thing", "FAIL : no such thing"),
    ],
)
def test_the_line_that_says_what_is_wrong(message: str, line: str) -> None:
    assert first_line(ValueError(message)) == line


def test_a_long_expression_is_cut() -> None:
    assert first_line(ValueError("x" * 1000)) == "x" * LONGEST + "…"


def test_a_programs_last_words() -> None:
    assert last_line(b"begins\nends: no space\n\n") == "ends: no space"
    assert last_line(b" \n") == "it said nothing"
    assert last_line(b"\xff\x00") == "\N{REPLACEMENT CHARACTER}\\x00"
